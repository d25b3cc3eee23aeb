from helpers import HOST, PORT, show
from redlock import Redlock

locks = Redlock([{"host": HOST, "port": PORT, "db": 0}], retry_count=1)
lock = locks.lock("printer", 5000)
show("locked", lock.resource, lock.validity > 0, locks.lock("printer", 5000))
show("again", locks.unlock(lock), locks.lock("printer", 5000).resource)
