import asyncio

from helpers import HOST, PORT, near, show
from key_value.aio.stores.redis import RedisStore


async def main():
    store = RedisStore(host=HOST, port=PORT)
    await store.put("a", {"n": 1}, ttl=60)
    value, ttl = await store.ttl("a")
    show("put", value, near(ttl, 60))
    await store.put_many(["x", "y"], [{"n": 1}, {"n": 2}])
    show("many", await store.get_many(["x", "none", "y"]), await store.delete("x"))


asyncio.run(main())
