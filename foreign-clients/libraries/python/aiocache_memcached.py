import asyncio

from aiocache import MemcachedCache
from aiocache.serializers import JsonSerializer
from helpers import HOST, PORT, show


async def main():
    cache = MemcachedCache(endpoint=HOST, port=PORT, serializer=JsonSerializer())
    show("set", await cache.set("a", {"n": 1}, ttl=60), await cache.get("a"))
    show("add", await cache.add("b", 1), await cache.exists("b"))
    show("many", await cache.multi_set([["x", 1], ["y", 2]]), await cache.multi_get(["x", "z"]))
    show("delete", await cache.delete("a"), await cache.get("a"), await cache.clear())
    await cache.close()


asyncio.run(main())
