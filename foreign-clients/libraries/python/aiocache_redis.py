import asyncio

from aiocache import RedisCache
from aiocache.serializers import JsonSerializer
from helpers import HOST, PORT, show


async def main():
    cache = RedisCache(endpoint=HOST, port=PORT, namespace="app", serializer=JsonSerializer())
    show("set", await cache.set("a", {"n": 1}, ttl=60), await cache.get("a"))
    show("add", await cache.add("b", 1), await cache.exists("b"), await cache.increment("c", 3))
    show("many", await cache.multi_set([["x", 1], ["y", 2]]), await cache.multi_get(["x", "z"]))
    show("expire", await cache.expire("x", 5), await cache.delete("a"), await cache.get("a"))
    show("clear", await cache.clear(namespace="app"), await cache.get("y"))
    await cache.close()


asyncio.run(main())
