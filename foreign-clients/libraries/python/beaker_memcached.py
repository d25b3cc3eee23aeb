from beaker.cache import CacheManager
from helpers import ADDRESS, show

options = {"type": "ext:memcached", "url": ADDRESS, "memcache_module": "memcache"}
cache = CacheManager(**options, expire=60, lock_dir="/tmp/cellar-beaker").get_cache("app")
calls = []


def made():
    calls.append(1)
    return {"n": len(calls)}


show("made once", cache.get("a", createfunc=made), cache.get("a", createfunc=made), calls)
cache.put("b", [1])
show("there", "b" in cache, cache.get("b"))
