require_relative 'helpers'
require 'rack'
require 'rack/mock'
require 'active_support'
require 'active_support/cache'
require 'active_support/cache/redis_cache_store'
require 'rack/attack'

Rack::Attack.cache.store = ActiveSupport::Cache::RedisCacheStore.new(
  url: URL, error_handler: ->(exception:, **) { raise exception }
)
Rack::Attack.throttle('everybody', limit: 3, period: 3600) { 'me' }
app = Rack::Attack.new(->(_) { [200, {}, ['hello']] })
show 'answers', (1..5).map { Rack::MockRequest.new(app).get('/').status }
