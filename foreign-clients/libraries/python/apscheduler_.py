from datetime import datetime, timezone

from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from helpers import HOST, PORT, show

scheduler = BackgroundScheduler(jobstores={"default": RedisJobStore(host=HOST, port=PORT)})
scheduler.start(paused=True)
when = datetime(2100, 1, 1, tzinfo=timezone.utc)
scheduler.add_job(print, "date", run_date=when, id="late", args=["late"])
show("jobs", [job.id for job in scheduler.get_jobs()], scheduler.get_job("late").args)
scheduler.remove_job("late")
show("left", scheduler.get_jobs(), scheduler.shutdown())
