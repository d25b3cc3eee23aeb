import django_setup
from django.core.cache import cache
from helpers import error, show

django_setup.cache("django.core.cache.backends.memcached.PyMemcacheCache")
show("set", cache.set("a", {"n": 1}, timeout=60), cache.get("a"), cache.get("none", "default"))
show("many", cache.set_many({"x": 1, "y": 2}), cache.get_many(["x", "none", "y"]))
show("incr", cache.incr("x"), cache.decr("x"), error(cache.incr, "none"), cache.add("x", 9))
show("touch", cache.touch("x", 30), cache.touch("none"), "x" in cache)
show("delete", cache.delete("x"), cache.delete("x"), cache.delete_many(["y"]))
show("version", cache.set("v", 1, version=2), cache.get("v"), cache.incr_version("v", version=2))
show("made", cache.get_or_set("made", lambda: "once"), cache.get("made"))
django_setup.session()
show("clear", cache.clear(), cache.get("a"))
