import pylibmc
from helpers import ADDRESS, SETTING, show

client = pylibmc.Client([ADDRESS], binary=not SETTING, behaviors={"tcp_nodelay": True})
show("set", client.set("a", {"n": 1}, time=60), client.get("a"), client.add("a", 2))
show("many", client.set_multi({"x": 1, "y": 2}), client.get_multi(["x", "none", "y"]))
show("count", client.incr("x"), client.delete("a"), client.flush_all())
