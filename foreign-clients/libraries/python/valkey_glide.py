import asyncio

from glide import ExpirySet, ExpiryType, GlideClient, GlideClientConfiguration, NodeAddress
from helpers import HOST, PORT, near, show


async def main():
    client = await GlideClient.create(GlideClientConfiguration([NodeAddress(HOST, PORT)]))
    show("set", await client.set("a", "1", expiry=ExpirySet(ExpiryType.SEC, 60)))
    show("get", await client.get("a"), near(await client.ttl("a"), 60), await client.incr("a"))
    show("many", await client.mset({"x": "1", "y": "2"}), await client.mget(["x", "none", "y"]))
    show("hash", await client.hset("h", {"f": "v"}), await client.hgetall("h"))
    show("delete", await client.delete(["x", "none"]))
    await client.close()


asyncio.run(main())
