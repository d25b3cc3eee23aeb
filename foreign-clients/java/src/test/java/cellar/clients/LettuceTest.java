package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Lettuce: one connection on Netty, asynchronous, and its client-side cache. */
class LettuceTest {
    private static final RedisURI SERVER =
            RedisURI.builder().withHost(RespServer.HOST).withPort(RespServer.PORT).build();

    private RedisClient client;

    @BeforeEach
    void open() {
        client = RedisClient.create(SERVER);
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            connection.sync().flushall();
        }
    }

    @AfterEach
    void close() {
        client.shutdown(0, 5, TimeUnit.SECONDS);
    }

    @ParameterizedTest
    @EnumSource(value = ProtocolVersion.class, names = {"RESP2", "RESP3"})
    void valuesAndCollections(ProtocolVersion protocol) {
        client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            RedisCommands<String, String> redis = connection.sync();
            redis.select(1);
            assertEquals("OK", redis.set("key", "value", SetArgs.Builder.nx().px(100_000)));
            assertNull(redis.set("key", "other", SetArgs.Builder.nx()));
            assertEquals("value", redis.get("key"));
            long left_ms = redis.pttl("key");
            assertTrue(left_ms > 90_000 && left_ms <= 100_000, left_ms + " ms");
            redis.hset("h", Map.of("a", "1", "b", "2"));
            assertEquals(Map.of("a", "1", "b", "2"), redis.hgetall("h"));
            redis.zadd("z", 2.5, "two");
            assertEquals(2.5, redis.zscore("z", "two"));
            assertEquals(3L, redis.dbsize());
        }
    }

    @Test
    void aThousandRequestsInFlightAreAnsweredInOrder() throws Exception {
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            List<RedisFuture<String>> read = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                connection.async().set("k" + i, "v" + i);
                read.add(connection.async().get("k" + i));
            }
            for (int i = 0; i < 1000; i++) {
                assertEquals("v" + i, read.get(i).get(60, TimeUnit.SECONDS));
            }
        }
    }

    @Test
    void transactionsAndScripts() {
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            RedisCommands<String, String> redis = connection.sync();
            redis.multi();
            redis.set("n", "1");
            redis.incr("n");
            TransactionResult replies = redis.exec();
            assertEquals(2L, replies.<Long>get(1));
            String script = "return redis.call('incrby', KEYS[1], ARGV[1])";
            Long sum = redis.eval(script, ScriptOutputType.INTEGER, new String[] {"n"}, "40");
            assertEquals(42L, sum);
        }
    }

    @Test
    void messagesReachSubscribers() throws Exception {
        AtomicReference<String> heard = new AtomicReference<>();
        try (StatefulRedisPubSubConnection<String, String> listener = client.connectPubSub();
                StatefulRedisConnection<String, String> connection = client.connect()) {
            listener.addListener(
                    new RedisPubSubAdapter<String, String>() {
                        @Override
                        public void message(String channel, String message) {
                            heard.set(message);
                        }
                    });
            listener.sync().subscribe("news");
            assertEquals(1L, connection.sync().publish("news", "hello"));
            Await.until("the message", () -> "hello".equals(heard.get()));
        }
    }

    @Test
    void theClientSideCacheSeesTheWritesOfOthers() throws Exception {
        Map<String, String> near = new ConcurrentHashMap<>();
        try (StatefulRedisConnection<String, String> connection = client.connect();
                StatefulRedisConnection<String, String> writer = client.connect();
                CacheFrontend<String, String> cache =
                        ClientSideCaching.enable(
                                CacheAccessor.forMap(near),
                                connection,
                                TrackingArgs.Builder.enabled())) {
            writer.sync().set("key", "one");
            assertEquals("one", cache.get("key"));
            assertEquals("one", near.get("key"));
            writer.sync().set("key", "two");
            Await.until("the change", () -> !near.containsKey("key"));
            assertEquals("two", cache.get("key"));
            writer.sync().pexpire("key", 20);
            Await.until("the end", () -> cache.get("key") == null);
        }
    }
}
