#!/usr/bin/env bash
# memcached 1.6.45: me (meta debug) with the flag b. The program is that of MEMCACHED or of the path, version 1.6.45.
# One would guess that `me KEY b` shows the item whose key is KEY in base64, as doc/protocol.txt says and as the other
# meta commands do.
# It takes KEY as it stands and answers EN; 1.6.18 finds the item. The flag counts only if a further word follows it:
# `me KEY b b` finds the item. For an item that was stored with b the reply then has the key in base64, and so has the
# reply to a plain `me` with the raw key, without a sign that it is base64.
# For somebody who runs a cache: a key with blanks or control characters cannot be named in any other form, so the
# documented request says that such an item does not exist while mg returns its value. A script that takes the key
# from the reply of me and reads it with mg gets a miss. Send a second word, or use mg with t, h, l and s.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
BINARY=${MEMCACHED:-$(command -v memcached)}
[ -n "$BINARY" ] || skip "no memcached in the path, and MEMCACHED names none"
"$BINARY" -V | grep -q '^memcached 1\.6\.45$' || skip "$("$BINARY" -V) is not memcached 1.6.45; set MEMCACHED"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" -u nobody -l 127.0.0.1 -p "$PORT" -U 0 -m 64 >log 2>&1 &
SERVER=$!
up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
for _ in $(seq 200); do up && break; sleep 0.1; done
up || skip "the server does not start: $(tail -1 log)"
cat > try.py <<'P'
import base64
import socket
import sys

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
file = connection.makefile("rb")

def send(request):
    connection.sendall(request + b"\r\n")
    return file.readline().decode().strip()

def seen(reply):
    return " ".join(reply.split()[:2])

encoded = base64.b64encode(b"two words")
print("ms KEY 1 b:", send(b"ms " + encoded + b" 1 b\r\nv"))
print("mg KEY s b:", send(b"mg " + encoded + b" s b"))
print("me KEY b:", seen(send(b"me " + encoded + b" b")))
print("me KEY b b:", seen(send(b"me " + encoded + b" b b")))
encoded = base64.b64encode(b"plain")
send(b"ms " + encoded + b" 1 b\r\nv")
print("me plain:", seen(send(b"me plain")))
P
OUT=$(timeout 60 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" -V
echo "$OUT"
[ "$OUT" = "ms KEY 1 b: HD
mg KEY s b: HD s1
me KEY b: EN
me KEY b b: ME dHdvIHdvcmRz
me plain: ME cGxhaW4=" ] && exit 0
exit 1
