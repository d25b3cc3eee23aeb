from datetime import datetime

from helpers import HOST, PORT, near, show
from redis_dict import RedisDict

d = RedisDict(namespace="app", host=HOST, port=PORT, expire=60)
d["a"], d["b"] = 1, datetime(2020, 1, 2)
show("dict", d["a"], d["b"], len(d), "a" in d, sorted(d.keys()))
show("ttl", near(d.get_ttl("a"), 60), d.pop("a"), d.get("a", "gone"))
d.clear()
show("clear", len(d))
