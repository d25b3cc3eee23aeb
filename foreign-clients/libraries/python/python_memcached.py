import memcache
from helpers import ADDRESS, show

client = memcache.Client([ADDRESS], cache_cas=True)
show("set", client.set("a", {"n": 1}, time=60), client.get("a"), client.add("a", 2))
show("many", client.set_multi({"x": 1, "y": 2}), client.get_multi(["x", "none", "y"]))
show("count", client.incr("x"), client.decr("x"), client.incr("none"))
show("cas", client.gets("y"), client.cas("y", 3), client.get("y"))
show("text", client.set("t", "b"), client.append("t", "c"), client.prepend("t", "a"), client.get("t"))
show("large", client.set("l", "x" * 100_000, min_compress_len=1000), len(client.get("l")))
show("delete", client.delete("a"), client.touch("x", 5), client.flush_all(), client.get("x"))
