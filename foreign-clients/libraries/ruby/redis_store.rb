require_relative 'helpers'
require 'redis'
require 'redis-store'

s = Redis::Store.new(host: HOST, port: PORT, namespace: 'app')
show 'set', s.set('a', { 'n' => 1 }), s.get('a'), s.setex('b', 60, 2), near(s.ttl('b'), 60)
show 'more', s.setnx('a', 1), s.mget('a', 'b'), s.keys('*').sort, s.del('a')
