import asyncio

from arq import Worker, create_pool
from arq.connections import RedisSettings
from helpers import HOST, PORT, show


async def add(_context, x, y):
    return x + y


async def main():
    pool = await create_pool(RedisSettings(HOST, PORT, conn_retries=0))
    job = await pool.enqueue_job("add", 2, 3, _job_id="sum")
    show("queued", await job.status(), await pool.enqueue_job("add", 2, 3, _job_id="sum"))
    worker = Worker([add], redis_pool=pool, burst=True, poll_delay=0.05)
    await worker.main()
    show("done", await job.result(timeout=5), await job.status())
    await worker.close()


asyncio.run(main())
