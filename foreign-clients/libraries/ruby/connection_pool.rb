require_relative 'helpers'
require 'connection_pool'
require 'redis'

pool = ConnectionPool.new(size: 4) { Redis.new(host: HOST, port: PORT) }
(1..20).map { Thread.new { pool.with { |r| r.incr('n') } } }.each(&:join)
show 'count', pool.with { |r| r.get('n') }
