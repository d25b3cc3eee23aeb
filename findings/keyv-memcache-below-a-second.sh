#!/usr/bin/env bash
# keyv 5.6.0 with @keyv/memcache 2.0.2 (npm) and memcached 1.6.18 (Debian 12: 1.6.18-1).
# One would guess that a TTL of 900 ms, which memcached cannot represent, becomes one second there, or nothing.
# The adapter rounds milliseconds down to whole seconds, and memcached takes 0 for "no expiry": the entry stays for
# ever. keyv keeps a deadline of its own inside the value, so get() answers undefined and removes the item, but has()
# asks only the server and returns true, and an entry that no client reads again is never removed. 1,100 ms works.
# For somebody who runs a cache: short-lived keys (locks, de-duplication marks, throttles) with random names fill the
# memory with items that no crawler reclaims, and push out live ones by LRU: evictions rise while expired_unfetched
# and reclaimed stay at 0. A check by has() takes a lock of 900 ms for held until the server restarts.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in node npm python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
BINARY=$(command -v memcached)
if [ -z "$BINARY" ]; then
    apt-get download memcached libevent-2.1-7 >err 2>&1 || skip "apt-get: $(tail -1 err)"
    for package in *.deb; do dpkg -x "$package" root || skip "$package cannot be unpacked"; done
    BINARY=root/usr/bin/memcached
    export LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu
fi
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" -u nobody -l 127.0.0.1 -p "$PORT" -U 0 -m 64 >log 2>&1 &
SERVER=$!
up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
for _ in $(seq 200); do up && break; sleep 0.1; done
up || skip "the server does not start: $(tail -1 log)"
echo '{"private": true, "type": "module"}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts keyv@5.6.0 @keyv/memcache@2.0.2 >err 2>&1 \
    || skip "npm: $(tail -1 err)"
cat > try.mjs <<'P'
import { Keyv } from 'keyv';
import KeyvMemcache from '@keyv/memcache';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
const port = Number(process.argv[2]);
const store = new KeyvMemcache(`127.0.0.1:${port}`);
const cache = new Keyv({ store });
const all = Array.from({ length: 50 }, (_, at) => at);
const kept = (ttl) => new Promise((resolve, reject) => {
  let text = '';
  const ask = all.map((at) => `mg keyv:keyv:${ttl}:${at} t\r\n`).join('');
  const socket = connect(port, '127.0.0.1', () => socket.write(`${ask}mn\r\n`));
  socket.on('error', reject);
  socket.on('data', (data) => {
    text += data;
    if (!text.endsWith('MN\r\n')) return;
    socket.end();
    resolve(text.split('\r\n').filter((line) => line.startsWith('HD ')));
  });
});
for (const ttl of [900, 1100]) {
  for (const at of all) await cache.set(`${ttl}:${at}`, 'value', ttl);
}
await pause(4000);
for (const ttl of [900, 1100]) {
  const items = await kept(ttl);
  const ever = items.filter((line) => line === 'HD t-1').length;
  const has = await cache.has(`${ttl}:1`);
  const value = await cache.get(`${ttl}:1`);
  console.log(`TTL ${ttl} ms, 4 s later: ${items.length} of 50 items, ${ever} without expiry; has ${has}, get ${value}`);
}
process.exit(0);
P
OUT=$(timeout 300 node try.mjs "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" -V
echo "$OUT"
[ "$OUT" = "TTL 900 ms, 4 s later: 50 of 50 items, 50 without expiry; has true, get undefined
TTL 1100 ms, 4 s later: 0 of 50 items, 0 without expiry; has false, get undefined" ] && exit 0
exit 1
