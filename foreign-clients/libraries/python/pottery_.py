from helpers import URL, show
from pottery import NextID, RedisCounter, RedisDict, RedisSet, Redlock, redis_cache
from redis import Redis

r = Redis.from_url(URL)
tel = RedisDict({"jack": 1}, redis=r, key="tel")
tel["guido"] = 2
show("dict", sorted(tel.items()), "jack" in tel, len(tel))
edibles = RedisSet({"eggs"}, redis=r, key="edibles")
edibles.update({"spam"})
show("set", sorted(edibles), edibles.pop() in ("eggs", "spam"))
counter = RedisCounter("abca", redis=r, key="letters")
show("counter", counter.most_common(1))


@redis_cache(redis=r, key="double", timeout=60)
def double(number):
    return 2 * number


show("cached", double(3), double(3), double.cache_info().hits)
with Redlock(key="printer", masters={r}, auto_release_time=5) as lock:
    show("lock", lock.locked() > 0)
show("ids", next(NextID(key="ids", masters={r})))
