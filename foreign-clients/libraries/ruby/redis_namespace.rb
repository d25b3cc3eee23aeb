require_relative 'helpers'
require 'redis'
require 'redis-namespace'

r = Redis::Namespace.new(:app, redis: Redis.new(host: HOST, port: PORT))
show 'set', r.set('a', '1'), r.get('a'), r.mget('a', 'none'), r.keys('*'), r.del('a'), r.hset('h', 'f', 'v')
