require_relative 'helpers'
require 'redis'

r = Redis.new(host: HOST, port: PORT)
show 'push', r.rpush('jobs', %w[a b c]), r.lrange('jobs', 0, -1)
show 'pop', r.lpop('jobs'), r.blpop('jobs', timeout: 1)
