import asyncio

import coredis
from helpers import HOST, PORT, near, show


async def main():
    async with coredis.Redis(host=HOST, port=PORT, decode_responses=True) as r:
        show("set", await r.set("a", "1", ex=60), await r.get("a"), near(await r.ttl("a"), 60))
        show("many", await r.mset({"x": "1", "y": "2"}), await r.mget(["x", "none", "y"]))
        show("hash", await r.hset("h", {"f": "v"}), await r.hgetall("h"))
        show("sorted", await r.zadd("z", {"a": 1.0}), await r.zrange("z", 0, -1))
        show("script", await r.eval("return ARGV[1]", ["k"], ["v"]))


asyncio.run(main())
