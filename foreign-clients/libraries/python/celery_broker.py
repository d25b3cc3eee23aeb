import celery.contrib.testing.tasks  # the task that tells that the worker is there
from celery import Celery
from celery.contrib.testing.worker import start_worker
from helpers import URL, show

app = Celery("app", broker=URL, backend=URL)
app.conf.update(broker_connection_retry_on_startup=False, broker_transport_options={"max_retries": 1})


@app.task(shared=False)
def add(x, y):
    return x + y


with start_worker(app, perform_ping_check=False, loglevel="ERROR", pool="solo"):
    show("task", add.delay(2, 3).get(timeout=15))
