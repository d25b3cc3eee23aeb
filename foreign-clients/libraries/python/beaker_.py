from beaker.cache import CacheManager
from helpers import URL, show

cache = CacheManager(type="ext:redis", url=URL, expire=60).get_cache("app")
calls = []


def made():
    calls.append(1)
    return {"n": len(calls)}


show("made once", cache.get("a", createfunc=made), cache.get("a", createfunc=made), calls)
cache.put("b", [1])
show("there", "b" in cache, cache.get("b"), cache.remove_value("b"), "b" in cache)
