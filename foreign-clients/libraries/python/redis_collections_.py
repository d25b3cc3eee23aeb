import redis
from helpers import HOST, PORT, show
from redis_collections import Counter, Dict, Set

r = redis.StrictRedis(HOST, PORT)
d = Dict({"a": 1}, redis=r, key="d")
d["b"] = [2]
show("dict", sorted(d.items()), d.pop("a"), len(d))
s = Set([1, 2, 3], redis=r, key="s")
show("set", sorted(s & {2, 3}), 2 in s, len(s))
show("counter", Counter("abca", redis=r, key="c").most_common(1))
