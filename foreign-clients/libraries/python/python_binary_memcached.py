import bmemcached
from helpers import ADDRESS, show

client = bmemcached.Client((ADDRESS,))
show("set", client.set("a", {"n": 1}, time=60), client.get("a"), client.add("a", 2))
show("many", client.set_multi({"x": 1, "y": 2}), client.get_multi(["x", "none", "y"]))
show("count", client.incr("n", 5), client.incr("n", 5), client.decr("n", 2))
show("cas", client.cas("x", 5, client.gets("x")[1]), client.get("x"))
show("delete", client.delete("a"), client.get("a"), client.flush_all())
