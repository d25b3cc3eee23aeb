package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Await;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The client over the Redis protocol, with Debian's redis-server and with Cellar. */
class RedisTest {
    private static final Duration TTL = Duration.ofMinutes(5);
    private static final Duration HOUR = Duration.ofHours(1);

    private static Server server(boolean redis, String... more) throws Exception {
        return redis ? Server.redis(0, more) : Server.start(Server.Kind.CELLAR);
    }

    private static CacheClientBuilder builder(Server server) {
        return Patient.builder()
                .protocol(CacheClientBuilder.Protocol.REDIS)
                .nodes("127.0.0.1:" + server.respPort());
    }

    /** The clock stands still, so that a pause of the machine ends no copy. */
    private static CacheClient<String> tracked(Server server) {
        return builder(server)
                .ticker(() -> 0)
                .localCache(LocalCacheOptions.tracked(1 << 20, server.respPort()))
                .build(Codecs.string());
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void everyOperationOfBothFaces(boolean redis) throws Exception {
        try (Server server = server(redis);
                CacheClient<String> client = builder(server).build(Codecs.string())) {
            BlockingCacheClient<String> cache = client.blocking();
            assertNull(cache.get("k"));
            cache.set("k", "v\r\n", Ttl.NEVER);
            assertEquals("v\r\n", cache.get("k"));
            assertEquals("v\r\n", client.get("k").toCompletableFuture().join());
            assertFalse(cache.add("k", "w", TTL));
            assertTrue(cache.add("other", "w", TTL));
            assertTrue(cache.replace("other", "x", TTL));
            assertFalse(cache.replace("none", "x", TTL));
            assertEquals(
                    Map.of("k", "v\r\n", "other", "x"),
                    cache.getMany(List.of("k", "none", "other")));
            assertTrue(cache.touch("k", TTL));
            assertTrue(cache.touch("k", Ttl.NEVER));
            assertTrue(cache.touch("k", Duration.ofDays(100)));
            assertFalse(cache.touch("none", TTL));
            assertFalse(cache.touch("none", Ttl.NEVER));
            assertTrue(cache.delete("k"));
            assertFalse(cache.delete("k"));
            assertTrue(cache.invalidate("other", TTL));
            cache.setMany(Map.of("a", "1", "b", "2"), Duration.ofDays(100));
            assertEquals(2, cache.deleteMany(List.of("a", "b", "c")));
            cache.set("empty", "", TTL);
            assertEquals("", cache.get("empty"));
            cache.flushAll();
            assertNull(cache.get("empty"));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void numbersChangeInOneStep(boolean redis) throws Exception {
        try (Server server = server(redis);
                CacheClient<String> client = builder(server).build(Codecs.string())) {
            BlockingCacheClient<String> cache = client.blocking();
            assertNull(cache.increment("n", 1));
            assertEquals(1, cache.addOrIncrement("n", 1, TTL));
            assertEquals(3, cache.addOrIncrement("n", 2, TTL));
            assertEquals(2, cache.decrement("n", 1));
            assertEquals(0, cache.decrement("n", 9));
            assertEquals(7, cache.addOrDecrement("m", 1, 7, Ttl.NEVER));
            cache.storeCounter("l", Long.MAX_VALUE - 1, TTL);
            assertEquals(Long.MAX_VALUE, cache.increment("l", 1));
            assertEquals(Long.MAX_VALUE, cache.getCounter("l"));
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                threads.add(new Thread(() -> count(cache)));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(400, cache.getCounter("sum"));
        }
    }

    private static void count(BlockingCacheClient<String> cache) {
        for (int i = 0; i < 100; i++) {
            cache.addOrIncrement("sum", 1, TTL);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aLocalCopyGoesWhenAnybodyChangesTheItem(boolean redis) throws Exception {
        try (Server server = server(redis);
                CacheClient<String> near = tracked(server);
                CacheClient<String> other = builder(server).build(Codecs.string())) {
            BlockingCacheClient<String> cache = near.blocking();
            other.blocking().set("k", "0", TTL);
            Await.until("a copy", () -> cache.get("k", HOUR) == cache.get("k", HOUR));
            for (int i = 1; i < 50; i++) {
                String value = "" + i;
                other.blocking().set("k", value, TTL);
                Await.until("change " + i, () -> value.equals(cache.get("k", HOUR)));
            }
            other.blocking().delete("k");
            Await.until("the removal", () -> cache.get("k", HOUR) == null);
            other.blocking().set("k", "again", TTL);
            Await.until("the new item", () -> "again".equals(cache.get("k", HOUR)));
            other.blocking().flushAll();
            Await.until("the flush", () -> cache.get("k", HOUR) == null);
        }
    }

    @Test
    void whoMissesTogetherLoadsOnce() throws Exception {
        try (Server server = server(true);
                CacheClient<String> one = tracked(server);
                CacheClient<String> two = tracked(server)) {
            AtomicInteger loads = new AtomicInteger();
            // A high patience: waiting callers load themselves after it, and a machine may be busy.
            LoadOptions options = LoadOptions.ttl(TTL).localTtl(HOUR).patience(HOUR);
            CountDownLatch asking = new CountDownLatch(8);
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                BlockingCacheClient<String> cache = (i % 2 == 0 ? one : two).blocking();
                threads.add(
                        new Thread(
                                () -> {
                                    asking.countDown();
                                    cache.getOrLoad("k", options, () -> load(asking, loads));
                                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(1, loads.get());
            BlockingCacheClient<String> cache = one.blocking();
            Await.until("a copy", () -> cache.get("k", HOUR) == cache.get("k", HOUR));
            String copy = cache.get("k", HOUR);
            assertSame(copy, cache.getOrLoad("k", options, () -> "other"));
        }
    }

    /** Loads when all callers have read, so that all of them have missed. */
    private static String load(CountDownLatch asking, AtomicInteger loads) {
        loads.incrementAndGet();
        try {
            asking.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return "v";
    }

    @Test
    void aPasswordIsGivenOnBothConnections() throws Exception {
        try (Server server = server(true, "--requirepass", "secret");
                CacheClient<String> without = builder(server).build(Codecs.string());
                CacheClient<String> near =
                        builder(server)
                                .credentials("default", "secret")
                                .localCache(LocalCacheOptions.tracked(1 << 20, server.respPort()))
                                .build(Codecs.string())) {
            assertThrows(CacheException.class, () -> without.blocking().get("k"));
            assertThrows(Exception.class, () -> without.get("k").toCompletableFuture().join());
            BlockingCacheClient<String> cache = near.blocking();
            cache.set("k", "v", TTL);
            Await.until("a copy", () -> cache.get("k", HOUR) == cache.get("k", HOUR));
        }
    }

    @Test
    void whatRedisHasNoCommandForIsRefused() throws Exception {
        try (Server server = server(true);
                CacheClient<String> client = builder(server).build(Codecs.string())) {
            BlockingCacheClient<String> cache = client.blocking();
            assertThrows(UnsupportedOperationException.class, () -> cache.getVersioned("k"));
            assertThrows(UnsupportedOperationException.class, () -> cache.append("k", "v"));
            assertThrows(UnsupportedOperationException.class, () -> cache.keys(Listing.FAST));
            assertThrows(UnsupportedOperationException.class, () -> cache.cas("k", "v", 1, TTL));
            assertThrows(
                    CacheException.Configuration.class,
                    () -> client.withCodec(Codecs.spymemcached()));
            CacheClientBuilder replicated =
                    builder(server).mode(CacheClientBuilder.Mode.REPLICATED);
            assertThrows(
                    CacheException.Configuration.class, () -> replicated.build(Codecs.string()));
            client.withCodec(Codecs.bytes()).blocking().set("k", new byte[1], TTL);
            assertThrows(CacheException.class, () -> cache.increment("k", 1));
            assertEquals(1, cache.get("k").length());
        }
    }
}
