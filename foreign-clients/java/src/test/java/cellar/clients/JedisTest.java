package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.SetParams;

/** Jedis: a pool of blocking connections, and its client-side cache. */
class JedisTest {
    /** As long as an answer is waited for: a busy machine takes seconds. */
    private static final int PATIENCE_MS = 20_000;

    private static DefaultJedisClientConfig config(RedisProtocol protocol) {
        return DefaultJedisClientConfig.builder()
                .protocol(protocol)
                .timeoutMillis(PATIENCE_MS)
                .build();
    }

    private static RedisClient open(RedisProtocol protocol) {
        return RedisClient.builder()
                .hostAndPort(RespServer.HOST, RespServer.PORT)
                .clientConfig(config(protocol))
                .build();
    }

    @BeforeEach
    void empty() {
        try (RedisClient client = open(RedisProtocol.RESP3)) {
            client.flushAll();
        }
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void valuesAreStoredReadAndRemoved(RedisProtocol protocol) {
        try (RedisClient client = open(protocol)) {
            assertEquals("OK", client.set("key", "value", SetParams.setParams().nx().px(100_000)));
            assertNull(client.set("key", "other", SetParams.setParams().nx()));
            assertEquals("value", client.get("key"));
            long left_ms = client.pttl("key");
            assertTrue(left_ms > 90_000 && left_ms <= 100_000, left_ms + " ms");
            assertEquals(42, client.incrBy("n", 42));
            assertEquals(0.3, client.incrByFloat("f", 0.3));
            assertEquals(List.of("value", "42"), client.mget("key", "n"));
            assertEquals(3, client.del("key", "n", "f", "nothing"));
            assertNull(client.get("key"));
        }
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void collectionsAreKept(RedisProtocol protocol) {
        try (RedisClient client = open(protocol)) {
            client.hset("h", Map.of("a", "1", "b", "2"));
            assertEquals(Map.of("a", "1", "b", "2"), client.hgetAll("h"));
            client.sadd("s", "a", "b");
            assertEquals(Set.of("a", "b"), client.smembers("s"));
            client.zadd("z", Map.of("one", 1.0, "two", 2.5));
            assertEquals(List.of("one", "two"), client.zrange("z", 0, -1));
            assertEquals(2.5, client.zscore("z", "two"));
            JedisDataException wrong =
                    assertThrows(JedisDataException.class, () -> client.get("h"));
            assertTrue(wrong.getMessage().startsWith("WRONGTYPE"));
        }
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void pipelinesAndTransactionsAnswerInOrder(RedisProtocol protocol) {
        try (RedisClient client = open(protocol)) {
            List<Response<String>> replies = new ArrayList<>();
            try (AbstractPipeline pipeline = client.pipelined()) {
                for (int i = 0; i < 1000; i++) {
                    pipeline.set("k" + i, "v" + i);
                    replies.add(pipeline.get("k" + i));
                }
                pipeline.sync();
            }
            for (int i = 0; i < 1000; i++) {
                assertEquals("v" + i, replies.get(i).get());
            }
            try (AbstractTransaction transaction = client.multi()) {
                transaction.set("n", "1");
                transaction.incr("n");
                assertEquals(List.of("OK", 2L), transaction.exec());
            }
        }
    }

    @Test
    void aScriptReleasesALock() {
        String script =
                "if redis.call('get', KEYS[1]) == ARGV[1] then "
                        + "return redis.call('del', KEYS[1]) else return 0 end";
        try (RedisClient client = open(RedisProtocol.RESP3)) {
            client.set("lock", "mine");
            assertEquals(0L, client.eval(script, List.of("lock"), List.of("other")));
            assertEquals(1L, client.eval(script, List.of("lock"), List.of("mine")));
        }
    }

    @Test
    void theClientSideCacheSeesTheWritesOfOthers() throws Exception {
        try (RedisClient writer = open(RedisProtocol.RESP2);
                RedisClient near =
                        RedisClient.builder()
                                .hostAndPort(RespServer.HOST, RespServer.PORT)
                                .clientConfig(config(RedisProtocol.RESP3))
                                .cacheConfig(CacheConfig.builder().maxSize(100).build())
                                .build()) {
            writer.set("key", "one");
            assertEquals("one", near.get("key"));
            assertEquals("one", near.get("key"));
            assertEquals(1, near.getCache().getSize());
            writer.set("key", "two");
            Await.until("the change", () -> "two".equals(near.get("key")));
            writer.flushAll();
            Await.until("the flush", () -> near.get("key") == null);
        }
    }
}
