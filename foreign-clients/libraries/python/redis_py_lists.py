import redis
from helpers import HOST, PORT, show

r = redis.Redis(HOST, PORT, decode_responses=True)
show("push", r.rpush("jobs", "a", "b", "c"), r.lpush("jobs", "z"), r.llen("jobs"))
show("range", r.lrange("jobs", 0, -1), r.lindex("jobs", 1))
show("pop", r.lpop("jobs"), r.rpop("jobs"), r.blpop("jobs", timeout=1), r.brpop("none", timeout=1))
show("move", r.lmove("jobs", "busy", "LEFT", "RIGHT"), r.lrem("busy", 1, "b"))
show("trim", r.rpush("log", *range(10)), r.ltrim("log", -3, -1), r.lrange("log", 0, -1))
