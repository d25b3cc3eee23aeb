import asyncio

from helpers import URL, show
from starsessions.stores.redis import RedisStore


async def main():
    store = RedisStore(URL, prefix="session:")
    await store.write("id", b"{}", lifetime=60, ttl=60)
    show("session", await store.read("id", 60), await store.read("none", 60))
    await store.remove("id")
    show("removed", await store.read("id", 60))


asyncio.run(main())
