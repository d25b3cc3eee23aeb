import pylibmc
from helpers import ADDRESS, error, show

client = pylibmc.Client([ADDRESS], binary=False, behaviors={"tcp_nodelay": True, "cas": True})
show("set", client.set("a", {"n": 1}, time=60), client.get("a"), client.add("a", 2))
show("many", client.set_multi({"x": 1, "y": 2}), client.get_multi(["x", "none", "y"]))
show("count", client.incr("x"), client.decr("x"), error(client.incr, "none"))
show("cas", client.cas("x", 5, client.gets("x")[1]), client.get("x"))
show("text", client.set("t", "b"), client.append("t", "c"), client.prepend("t", "a"), client.get("t"))
show("delete", client.delete("a"), client.delete("a"), client.flush_all())
