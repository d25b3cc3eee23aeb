import redis
import redis_lock
from helpers import HOST, PORT, near, show

r = redis.Redis(HOST, PORT)
lock = redis_lock.Lock(r, "name", expire=60, id=b"me")
show("acquire", lock.acquire(blocking=False), lock.get_owner_id(), near(r.ttl("lock:name"), 60))
other = redis_lock.Lock(r, "name", expire=60, id=b"other")
show("other", other.acquire(blocking=False), other.locked())
show("extend", lock.extend(30), lock.release(), other.acquire(timeout=2))
show("release", other.release(), redis_lock.Lock(r, "name").locked())
