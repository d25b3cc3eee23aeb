#!/usr/bin/env bash
# memcached 1.6.18 (Debian 12: 1.6.18-1), md with I (mark an item as stale) and writes that change the item.
# One would guess that an item marked as stale stays so until a client stores a new value: the mark says that the
# content is out of date, and one client has the token to renew it.
# incr, decr, touch and ma change the stale item and keep the mark. append and prepend put the new bytes after or
# before the stale ones, and the result counts as fresh: mark and token are gone, no client renews it, and a client
# that holds the token is not notified. In between, the classic get serves the stale item without a sign, and add
# refuses.
# For somebody who runs a cache: lists that grow by append (events, tags, ids) cannot be invalidated with md I. A
# writer that comes before the renewal puts the old list back for its whole remaining TTL. Delete such keys with a
# plain md instead: append then returns NOT_STORED.
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
            lines.append(file.readline().decode().strip())
        if first != "VALUE":
            return " ".join(lines)

changes = {
    "nothing": "mn",
    "incr": "incr key 1",
    "touch": "touch key 60",
    "ma": "ma key",
    "append": "append key 0 0 1\r\n0",
    "prepend": "prepend key 0 0 1\r\n1",
}
for name, change in changes.items():
    send("set key 0 60 1\r\n5")
    send("md key I T60")
    send(change)
    classic = send("get key").split(" ")[4]
    flags = send("mg key v").split(" ")[2:-1]
    state = "stale, with a token" if flags == ["X", "W"] else "fresh" if not flags else flags
    print(f"{name}: get {classic}, {state}, add {send('add key 0 0 1' + chr(13) + chr(10) + '7')}")
P
OUT=$(timeout 120 python3 try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
"$BINARY" -V
echo "$OUT"
[ "$OUT" = "nothing: get 5, stale, with a token, add NOT_STORED
incr: get 6, stale, with a token, add NOT_STORED
touch: get 5, stale, with a token, add NOT_STORED
ma: get 6, stale, with a token, add NOT_STORED
append: get 50, fresh, add NOT_STORED
prepend: get 15, fresh, add NOT_STORED" ] && exit 0
exit 1
