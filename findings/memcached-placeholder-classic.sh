#!/usr/bin/env bash
# memcached 1.6.18 (Debian 12: 1.6.18-1), meta commands and the classic commands on one key.
# One would guess that mg with N (the meta commands' protection against stampedes) affects only the clients that use
# it: the first one to miss gets the token to fill the key, and a client with the classic commands still misses until
# then.
# That miss stores a placeholder, an item with an empty value, and only meta replies carry the token. To the classic
# commands it is an item like any other: get is a hit with an empty value, add refuses to store, incr says that the
# value is not a number, and append adds to it, after which the placeholder counts as filled.
# For somebody who runs a cache: while clients move from classic to meta commands one service at a time, each key that
# a new client misses is an empty page for the old ones, for up to the time given to N, and get_hits rises instead of
# get_misses. Keep the keys of the two apart, or let old clients take an empty value for a miss.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
BINARY=$(command -v memcached)
if [ -z "$BINARY" ]; then
    apt-get download memcached libevent-2.1-7 >err 2>&1 || skip "apt-get: $(tail -1 err)"
    for package in *.deb; do dpkg -x "$package" root || skip "$package cannot be unpacked"; done
    BINARY=root/usr/bin/memcached
    export LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu
fi
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" -u nobody -l 127.0.0.1 -p "$PORT" -U 0 -m 64 >log 2>&1 &
SERVER=$!
up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
for _ in $(seq 200); do up && break; sleep 0.1; done
up || skip "the server does not start: $(tail -1 log)"
cat > try.py <<'P'
import socket
import sys

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
file = connection.makefile("rb")

def send(command):
    connection.sendall(command.encode() + b"\r\n")
    lines = []
    while True:
        lines.append(file.readline().decode().strip())
        first = lines[-1].split(" ")[0]
        if first in ("VALUE", "VA"):
            lines.append(repr(file.readline().decode().strip()))
        if first not in ("VALUE", "STAT"):
            break
    words = command.replace("\r\n", " ")
    print(f"{words}: {' '.join(lines)}")

send("get key")
send("mg key v N30")
send("get key")
send("add key 0 0 5\r\nvalue")
send("incr key 1")
send("append key 0 0 3\r\nend")
send("mg key v N30")
P
OUT=$(timeout 120 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" -V
echo "$OUT"
[ "$OUT" = "get key: END
mg key v N30: VA 0 W ''
get key: VALUE key 0 0 '' END
add key 0 0 5 value: NOT_STORED
incr key 1: CLIENT_ERROR cannot increment or decrement non-numeric value
append key 0 0 3 end: STORED
mg key v N30: VA 3 'end'" ] && exit 0
exit 1
