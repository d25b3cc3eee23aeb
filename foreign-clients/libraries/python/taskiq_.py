import asyncio

from helpers import URL, show
from taskiq.receiver import Receiver
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

broker = ListQueueBroker(URL).with_result_backend(RedisAsyncResultBackend(URL, result_ex_time=60))


@broker.task
async def add(x: int, y: int) -> int:
    return x + y


async def main():
    await broker.startup()
    task = await add.kiq(2, 3)
    async for message in broker.listen():
        await Receiver(broker).callback(message)
        break
    show("result", (await task.wait_result(timeout=10)).return_value)
    await broker.shutdown()


asyncio.run(main())
