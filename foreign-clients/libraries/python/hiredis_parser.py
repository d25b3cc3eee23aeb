import hiredis
import redis
from helpers import HOST, PORT, show

r = redis.Redis(HOST, PORT)
show("parser", type(r.connection_pool.make_connection()._parser).__name__)
show("values", r.set("k", b"\x00" * 70_000), len(r.get("k")), r.mget(["k"] * 2)[1][:3])
reader = hiredis.Reader()
reader.feed(b"+OK\r\n")
show("reader", reader.gets())
pipe = r.pipeline(transaction=False)
for i in range(500):
    pipe.set(f"k{i}", i)
show("pipeline", len(pipe.execute()), r.dbsize())
