require_relative 'helpers'
require 'active_support'
require 'active_support/cache'
require 'redis-activesupport'
require_relative 'rails'

tried(ActiveSupport::Cache::RedisStore.new(URL))
