import asyncio

from helpers import URL, show
from saq import Queue, Worker


async def add(_context, *, x, y):
    return x + y


async def main():
    queue = Queue.from_url(URL)
    await queue.connect()
    worker = Worker(queue, functions=[add], concurrency=1)
    running = asyncio.create_task(worker.start())
    show("result", await asyncio.wait_for(queue.apply("add", x=2, y=3), 10))
    await worker.stop()
    running.cancel()
    await queue.disconnect()


asyncio.run(main())
