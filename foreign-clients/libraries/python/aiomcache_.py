import asyncio

import aiomcache
from helpers import HOST, PORT, show


async def main():
    client = aiomcache.Client(HOST, PORT)
    show("set", await client.set(b"a", b"1", exptime=60), await client.get(b"a"))
    show("add", await client.add(b"a", b"2"), await client.incr(b"a", 4), await client.touch(b"a", 9))
    show("many", await client.set(b"b", b"2"), await client.multi_get(b"a", b"none", b"b"))
    value, version = await client.gets(b"b")
    show("cas", value, await client.cas(b"b", b"3", version), await client.delete(b"b"))
    show("flush", await client.flush_all(), await client.get(b"a"))
    await client.close()


asyncio.run(main())
