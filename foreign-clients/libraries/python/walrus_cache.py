from helpers import HOST, PORT, show
from walrus import Database

db = Database(HOST, PORT)
cache = db.cache(default_timeout=60)
show("cache", cache.set("a", {"n": 1}), cache.get("a"), cache.delete("a"), cache.get("a"))
calls = []


@cache.cached(timeout=60)
def double(number):
    calls.append(number)
    return 2 * number


show("cached", double(3), double(3), calls)
h = db.Hash("h")
h.update(a="1", b="2")
show("hash", h["a"], len(h), "b" in h)
s = db.ZSet("z")
s.add({"a": 1, "b": 2})
show("sorted", s.range(0, -1, with_scores=True))
limit = db.rate_limit("limit", limit=3, per=60)
show("limit", [limit.limit("me") for _ in range(5)])
