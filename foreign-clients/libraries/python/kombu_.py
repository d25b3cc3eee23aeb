from helpers import URL, show
from kombu import Connection

with Connection(URL, transport_options={"max_retries": 1}) as connection:
    queue = connection.SimpleQueue("jobs")
    queue.put({"job": 1})
    queue.put({"job": 2})
    message = queue.get(block=True, timeout=5)
    show("message", message.payload)
    message.ack()
    show("left", queue.qsize(), queue.clear())
    queue.close()
