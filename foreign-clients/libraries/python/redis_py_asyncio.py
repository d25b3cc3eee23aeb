import asyncio

import redis.asyncio as redis
from helpers import URL, near, show


async def main():
    r = redis.from_url(URL, decode_responses=True)
    show("set", await r.set("a", "1", ex=60), await r.get("a"), near(await r.ttl("a"), 60))
    async with r.pipeline(transaction=True) as pipe:
        show("transaction", await pipe.incr("a").hset("h", "f", "v").hgetall("h").execute())
    async with r.pubsub() as listener:
        await listener.subscribe("news")
        await listener.get_message(timeout=5)
        await r.publish("news", "hello")
        show("message", (await listener.get_message(timeout=5))["data"])
    async with r.lock("lock", timeout=10) as lock:
        show("lock", await lock.owned())
    show("gathered", sorted(await asyncio.gather(*(r.incr("n") for _ in range(20)))))
    await r.aclose()


asyncio.run(main())
