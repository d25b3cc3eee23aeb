from cachelib import RedisCache
from helpers import HOST, PORT, show

cache = RedisCache(HOST, PORT, key_prefix="app:", default_timeout=60)
show("set", cache.set("a", {"n": 1}), cache.get("a"), cache.add("a", 2), cache.has("a"))
show("many", cache.set_many({"x": 1, "y": 2}), cache.get_many("x", "none"), cache.get_dict("y"))
show("count", cache.inc("n", 5), cache.dec("n", 2), cache.delete("a"), cache.delete_many("x", "y"))
show("clear", cache.clear(), cache.get("n"))
