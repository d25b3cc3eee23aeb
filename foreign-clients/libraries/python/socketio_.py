import asyncio

import socketio
from helpers import URL, show, until


async def main():
    heard = []

    class Manager(socketio.AsyncRedisManager):
        async def _handle_emit(self, message):
            heard.append((message["event"], message["data"]))

    listening = Manager(URL)
    server = socketio.AsyncServer(client_manager=listening, async_mode="asgi")
    listening.initialize()
    emitting = socketio.AsyncRedisManager(URL, write_only=True)
    for _ in range(100):
        await emitting.emit("news", "hello")
        await asyncio.sleep(0.1)
        if heard:
            break
    show("heard", heard[0], bool(server), until(lambda: True))


asyncio.run(asyncio.wait_for(main(), 20))
