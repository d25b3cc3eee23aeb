require_relative 'helpers'
require 'redis'

r = Redis.new(host: HOST, port: PORT)
show 'set', r.set('a', '1', ex: 60), r.get('a'), near(r.ttl('a'), 60), r.incrby('a', 4)
show 'many', r.mset('x', 1, 'y', 2), r.mget('x', 'none', 'y'), r.del('x', 'none')
show 'hash', r.hset('h', { 'f' => 'v' }), r.hgetall('h'), r.sadd('s', ['b'])
show 'sorted', r.zadd('z', [[1, 'a'], [2, 'b']]), r.zrange('z', 0, -1, with_scores: true)
show 'pipeline', r.pipelined { |pipe| pipe.incr('n'); pipe.get('none') }
show 'multi', r.multi { |tx| tx.incr('n'); tx.get('n') }
show 'script', r.eval('return ARGV[1]', keys: ['k'], argv: ['v'])
heard = nil
Redis.new(host: HOST, port: PORT).subscribe('news') do |on|
  on.subscribe { r.publish('news', 'hello') }
  on.message { |_, text| heard = text; Thread.current[:done] = true; raise StopIteration }
rescue StopIteration
  nil
end rescue StopIteration
show 'message', heard, r.scan_each(match: '?').sort
