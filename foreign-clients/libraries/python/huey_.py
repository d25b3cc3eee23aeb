from helpers import URL, show
from huey import RedisHuey

huey = RedisHuey("app", url=URL)


@huey.task()
def add(x, y):
    return x + y


result = add(2, 3)
show("queued", len(huey.pending()))
task = huey.dequeue()
show("executed", huey.execute(task), result.get(), len(huey.pending()))
with huey.lock_task("lock"):
    show("locked", huey.is_locked("lock"))
