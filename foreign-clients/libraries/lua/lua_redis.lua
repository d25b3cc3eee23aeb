-- redis-lua: cache, hashes, pipelines, transactions, scripts.

local redis = require 'redis'
local function show(what, ...)
  local words = {}
  for i = 1, select('#', ...) do words[i] = tostring((select(i, ...))) end
  print(what .. ': ' .. table.concat(words, ' '))
end
local r = redis.connect(os.getenv('HOST'), tonumber(os.getenv('PORT')))
show('set', r:setex('a', 60, '1'), r:get('a'), r:ttl('a') > 57, r:incrby('a', 4))
show('many', r:mset { x = 1, y = 2 }, unpack(r:mget('x', 'y')))
show('hash', r:hset('h', 'f', 'v'), r:hgetall('h').f, r:zadd('z', 1, 'a'), r:get('none'))
local replies = r:pipeline(function(p) p:incr('n'); p:get('n') end)
show('pipeline', unpack(replies))
show('transaction', unpack((r:transaction(function(t) t:incr('n'); t:get('n') end))))
show('script', r:eval('return ARGV[1]', 1, 'k', 'v'), r:del('a', 'x'))
