import redis
from helpers import HOST, PORT, show
from rq import Queue, SimpleWorker

queue = Queue(connection=redis.Redis(HOST, PORT))
job = queue.enqueue(max, 3, 5, job_id="largest")
show("queued", job.get_status().value, len(queue))
SimpleWorker([queue], connection=queue.connection).work(burst=True, logging_level="ERROR")
show("done", job.get_status(refresh=True).value, job.return_value(), len(queue))
