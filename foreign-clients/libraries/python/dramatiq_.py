import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from helpers import URL, show

broker = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL)))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True, max_retries=0)
def add(x, y):
    return x + y


message = add.send(2, 3)
worker = dramatiq.Worker(broker, worker_timeout=100)
worker.start()
show("result", message.get_result(block=True, timeout=10_000))
worker.stop()
