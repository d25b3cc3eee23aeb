import asyncio

from cashews import cache
from helpers import URL, show

cache.setup(URL, client_side=False)
calls = []


@cache(ttl="1m", key="user:{name}")
async def user(name):
    calls.append(name)
    return {"name": name}


async def main():
    show("cached", await user("ada"), await user("ada"), calls)
    show("set", await cache.set("k", [1, 2], expire=60), await cache.get("k"))
    show("many", await cache.set_many({"x": 1, "y": 2}), await cache.get_many("x", "none", "y"))
    show("incr", await cache.incr("n"), await cache.incr("n"))
    async with cache.lock("lock", expire=10):
        show("locked", await cache.is_locked("lock"))
    show("match", await cache.delete_match("user:*"), await user("ada"), calls)
    await cache.close()


asyncio.run(main())
