import redis
from helpers import HOST, PORT, show

r = redis.Redis(HOST, PORT, decode_responses=True)
show("add", r.xadd("log", {"n": 1}, id="1-1"), r.xadd("log", {"n": 2}, id="1-2"), r.xlen("log"))
show("read", r.xrange("log"), r.xgroup_create("log", "readers", id="0"))
show("group", r.xreadgroup("readers", "me", {"log": ">"}), r.xack("log", "readers", "1-1"))
