#!/usr/bin/env bash
# xmemcached 2.4.8 (Maven: com.googlecode.xmemcached:xmemcached) and memcached 1.6.18 (Debian 12: 1.6.18-1).
# One would guess that incr("visits", 5) of a key that is not there returns 5, as in Redis, or says that it is not there,
# as memcached's own protocol does (NOT_FOUND).
# It stores 0 and returns 0: the two-argument form is the one with an initial value, and that is 0. So the first
# increment of each counter is not counted, and the counter that it made never expires. decr() does the same.
# For somebody who runs a cache: a limiter of 5 a minute that counts so lets 6 through, sums come out too small by the
# first amount, and counters without an expiry fill the memory. Use incr(key, delta, delta, timeout, expiry).
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in java javac mvn python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
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
cat > pom.xml <<'P'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.googlecode.xmemcached</groupId><artifactId>xmemcached</artifactId><version>2.4.8</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
P
mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >err 2>&1 || skip "mvn: $(grep -m1 ERROR err)"
cat > Try.java <<'P'
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.utils.AddrUtil;

class Try {
    public static void main(String[] arguments) throws Exception {
        MemcachedClient client =
                new XMemcachedClientBuilder(AddrUtil.getAddresses("127.0.0.1:" + arguments[0])).build();
        System.out.println("incr 5: " + client.incr("visits", 5));
        System.out.println("incr 5 again: " + client.incr("visits", 5));
        System.out.println("decr 5: " + client.decr("left", 5));
        System.out.println("with an initial value: " + client.incr("other", 5, 5));
        client.shutdown();
    }
}
P
OUT=$(timeout 120 java -cp 'lib/*' Try.java "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
expiry() { python3 - "$PORT" <<'P'
import socket
import sys

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
connection.sendall(b"mg visits t\r\n")
print("expiry of the counter:", connection.makefile().readline().split()[1])
P
}
OUT="$OUT
$(expiry)"
echo "$OUT"
[ "$OUT" = "incr 5: 0
incr 5 again: 5
decr 5: 0
with an initial value: 5
expiry of the counter: t-1" ] && exit 0
exit 1
