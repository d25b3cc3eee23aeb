require_relative 'helpers'
require 'active_support'
require 'active_support/cache'
require 'active_support/cache/mem_cache_store'
require_relative 'rails'

tried(ActiveSupport::Cache::MemCacheStore.new(ADDRESS, namespace: 'app'))
