import django_setup
from django.core.cache import cache
from helpers import near, show

django_setup.cache("django_redis.cache.RedisCache")
show("set", cache.set("a", {"n": 1}, timeout=60), cache.get("a"), near(cache.ttl("a"), 60))
show("many", cache.set_many({"x": 1, "y": 2}), cache.get_many(["x", "none", "y"]))
show("incr", cache.incr("x"), cache.add("x", 1), cache.touch("x", 5), cache.has_key("x"))
show("keys", sorted(cache.keys("*")), cache.delete_pattern("x*"), cache.delete("none"))
with cache.lock("lock", timeout=5):
    show("lock", cache.get_or_set("made", lambda: "once"))
django_setup.session()
show("clear", cache.clear(), cache.get("a"))
