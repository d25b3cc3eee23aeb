import asyncio

from bullmq import Queue, Worker
from helpers import HOST, PORT, show


async def main():
    options = {"connection": {"host": HOST, "port": PORT}}
    queue = Queue("sums", options)
    done = asyncio.get_running_loop().create_future()

    async def process(job, _token):
        return job.data["x"] + job.data["y"]

    await queue.add("sum", {"x": 2, "y": 3}, {"jobId": "first"})
    worker = Worker("sums", process, options)
    worker.on("completed", lambda job, result: done.done() or done.set_result(result))
    worker.on("error", lambda problem, *_: done.done() or done.set_exception(problem))
    show("result", await asyncio.wait_for(done, 10))
    await worker.close()
    await queue.close()


asyncio.run(main())
