from celery import Celery
from celery.schedules import schedule
from helpers import URL, show
from redbeat import RedBeatSchedulerEntry

app = Celery("app", broker="memory://")
app.conf.redbeat_redis_url = URL
entry = RedBeatSchedulerEntry("job", "tasks.add", schedule(run_every=60), args=[1, 2], app=app)
entry.save()
found = RedBeatSchedulerEntry.from_key(entry.key, app=app)
show("entry", found.task, found.args, found.schedule.run_every.seconds)
show("deleted", found.delete())
