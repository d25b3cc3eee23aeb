require_relative 'helpers'
require 'active_support'
require 'active_support/cache'
require 'active_support/cache/redis_cache_store'
require_relative 'rails'

cache = ActiveSupport::Cache::RedisCacheStore.new(
  url: URL, namespace: 'app', error_handler: ->(exception:, **) { raise exception }
)
tried(cache)
cache.delete_matched('*')
show 'matched', cache.read('a')
cache.clear
