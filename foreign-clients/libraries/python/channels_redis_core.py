import asyncio

from channels_redis.core import RedisChannelLayer as Layer
from helpers import HOST, PORT, show


async def main():
    layer = Layer(hosts=[(HOST, PORT)])
    name = await layer.new_channel()
    await layer.group_add("room", name)
    await layer.group_send("room", {"type": "chat", "text": "hello"})
    show("group", await asyncio.wait_for(layer.receive(name), 10))
    await layer.send(name, {"type": "direct"})
    show("channel", await asyncio.wait_for(layer.receive(name), 10))
    await layer.group_discard("room", name)
    await layer.flush()


asyncio.run(main())
