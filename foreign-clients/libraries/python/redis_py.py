import redis
from helpers import HOST, PORT, near, show

for protocol in (2, 3):
    r = redis.Redis(HOST, PORT, decode_responses=True, protocol=protocol)
    r.flushdb()
    show("set", r.set("a", "1", ex=60), r.get("a"), near(r.ttl("a"), 60), r.incrby("a", 4))
    show("many", r.mset({"x": 1, "y": 2}), r.mget("x", "none", "y"), r.delete("x", "none"))
    show("hash", r.hset("h", mapping={"f": "v", "n": 1}), r.hgetall("h"), r.hincrby("h", "n", 2))
    show("sets", r.sadd("s", "a", "b"), sorted(r.smembers("s")), r.sismember("s", "c"))
    show("sorted", r.zadd("z", {"a": 1, "b": 2}), r.zrange("z", 0, -1, withscores=True))
    with r.pipeline() as pipe:
        show("transaction", pipe.set("p", 1).incr("p").expire("p", 60).execute())
    with r.pipeline() as pipe:
        pipe.watch("p")
        r.incr("p")
        pipe.multi()
        try:
            show("watched", pipe.get("p").execute())
        except redis.WatchError:
            show("watched", "changed")
    script = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    show("script", script(keys=["p"], args=[10]))
    with r.lock("lock", timeout=10) as lock:
        show("lock", lock.owned(), r.lock("lock", timeout=1).acquire(blocking=False))
    listener = r.pubsub()
    listener.subscribe("news")
    show("subscribed", listener.get_message(timeout=5)["type"])
    show("published", r.publish("news", "hello"), listener.get_message(timeout=5)["data"])
    show("scan", sorted(r.scan_iter("*")), r.type("h"), r.exists("a", "none"))
    listener.close()
    r.close()
