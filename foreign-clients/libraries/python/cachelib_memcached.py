from cachelib import MemcachedCache
from helpers import ADDRESS, show

cache = MemcachedCache([ADDRESS], key_prefix="app:", default_timeout=60)
show("set", cache.set("a", {"n": 1}), cache.get("a"), cache.add("a", 2), cache.has("a"))
show("many", cache.set_many({"x": 1, "y": 2}), cache.get_many("x", "none"), cache.get_dict("y"))
show("count", cache.inc("x", 5), cache.delete("a"), cache.delete_many("x", "y"))
show("clear", cache.clear(), cache.get("n"))
