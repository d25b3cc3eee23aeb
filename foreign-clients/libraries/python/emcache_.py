import asyncio

import emcache
from helpers import HOST, PORT, show


async def main():
    client = await emcache.create_client([emcache.MemcachedHostAddress(HOST, PORT)])
    show("set", await client.set(b"a", b"1", exptime=60), (await client.get(b"a")).value)
    show("count", await client.increment(b"a", 4), await client.touch(b"a", 30))
    await client.set(b"b", b"2")
    found = await client.get_many([b"a", b"none", b"b"])
    show("many", {key: item.value for key, item in found.items()})
    item = await client.gets(b"b")
    show("cas", await client.cas(b"b", b"3", item.cas), await client.delete(b"b"))
    await client.close()


asyncio.run(main())
