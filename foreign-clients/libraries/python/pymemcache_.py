from helpers import HOST, PORT, error, show
from pymemcache.client.base import PooledClient
from pymemcache.client.retrying import RetryingClient
from pymemcache.client.hash import HashClient
from pymemcache.serde import pickle_serde

for client in (
    PooledClient((HOST, PORT), serde=pickle_serde, max_pool_size=4),
    HashClient([(HOST, PORT)], serde=pickle_serde),
    RetryingClient(PooledClient((HOST, PORT), serde=pickle_serde), attempts=2),
):
    client.flush_all()
    show("set", client.set("a", {"n": 1}, expire=60, noreply=False), client.get("a"))
    show("add", client.add("a", 1, noreply=False), client.replace("none", 1, noreply=False))
    show("many", client.set_many({"x": 1, "y": 2}), client.get_many(["x", "none", "y"]))
    value, version = client.gets("x")
    show("cas", value, client.cas("x", 3, version), client.cas("x", 4, version))
    client.set("n", "5", noreply=False)
    show("count", client.set("m", b"5"), error(client.incr, "none", 1))
    show("delete", client.delete("a", noreply=False), client.delete("a", noreply=False))
    show("touch", client.touch("x", 30, noreply=False))
