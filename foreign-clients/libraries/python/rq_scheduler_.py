from datetime import timedelta

import redis
from helpers import HOST, PORT, show
from rq_scheduler import Scheduler

scheduler = Scheduler(connection=redis.Redis(HOST, PORT))
job = scheduler.enqueue_in(timedelta(hours=1), max, 1, 2)
show("scheduled", scheduler.count(), job in scheduler)
scheduler.cancel(job)
show("cancelled", scheduler.count())
