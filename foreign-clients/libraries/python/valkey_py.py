import valkey
from helpers import HOST, PORT, near, show

r = valkey.Valkey(HOST, PORT, decode_responses=True)
show("set", r.set("a", "1", ex=60), r.get("a"), near(r.ttl("a"), 60), r.incr("a"))
show("many", r.mset({"x": 1, "y": 2}), r.mget("x", "none", "y"), r.delete("x", "y"))
show("hash", r.hset("h", mapping={"f": "v"}), r.hgetall("h"))
show("sorted", r.zadd("z", {"a": 1}), r.zrangebyscore("z", 0, 5))
with r.pipeline() as pipe:
    show("transaction", pipe.set("p", 1).incr("p").execute())
show("script", r.eval("return {KEYS[1], ARGV[1]}", 1, "k", "v"))
listener = r.pubsub(ignore_subscribe_messages=True)
listener.subscribe("news")
listener.get_message(timeout=5)
show("message", r.publish("news", "hello"), listener.get_message(timeout=5)["data"])
with r.lock("lock", timeout=5) as lock:
    show("lock", lock.owned())
