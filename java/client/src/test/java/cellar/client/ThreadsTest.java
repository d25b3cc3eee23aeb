package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Await;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntSupplier;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Many callers, every transport, and the metrics. */
@Tag("deep")
class ThreadsTest {
    private static final Duration TTL = Duration.ofMinutes(1);

    /** As many threads as an application may have: ten thousand virtual ones if available. */
    private record Crowd(int size, ExecutorService threads) {
        static Crowd gather() throws Exception {
            try {
                Method virtual = Executors.class.getMethod("newVirtualThreadPerTaskExecutor");
                return new Crowd(10_000, (ExecutorService) virtual.invoke(null));
            } catch (NoSuchMethodException e) {
                return new Crowd(2_000, Executors.newFixedThreadPool(2_000));
            }
        }
    }

    @Test
    void aCrowdOfThreadsWaitsAtTheSameTime() throws Exception {
        Crowd crowd = Crowd.gather();
        ExecutorService threads = crowd.threads();
        AtomicInteger right = new AtomicInteger();
        Queue<Throwable> failures = new ConcurrentLinkedQueue<>();
        CountDownLatch start = new CountDownLatch(1);
        try (Server server = Server.start(Server.Kind.CELLAR);
                CacheClient<String> client =
                        CacheClient.builder()
                                .connectTimeout(Duration.ofSeconds(20))
                                .nodes(List.of(server.node()))
                                .timeout(Duration.ofSeconds(30))
                                .build(Codecs.string())) {
            BlockingCacheClient<String> cache = client.blocking();
            for (int i = 0; i < crowd.size(); i++) {
                String key = "k" + i;
                threads.execute(
                        () -> {
                            await(start);
                            try {
                                cache.set(key, key, TTL);
                                assertEquals(key, cache.get(key));
                                right.incrementAndGet();
                            } catch (Throwable e) {
                                failures.add(e);
                            }
                        });
            }
            start.countDown();
            threads.shutdown();
            // Each request has a time-out, so this ends.
            assertTrue(threads.awaitTermination(5, TimeUnit.MINUTES), right + " answers");
            assertEquals(List.of(), failures.stream().limit(3).toList());
            assertEquals(crowd.size(), right.get());
        } finally {
            threads.shutdownNow();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Records which threads decode. */
    private static final class Watched implements Codec<String> {
        final Set<Thread> threads = ConcurrentHashMap.newKeySet();

        @Override
        public Encoded encode(String value) {
            return new Encoded(value.getBytes(StandardCharsets.UTF_8), 0);
        }

        @Override
        public String decode(byte[] bytes, int flags) {
            threads.add(Thread.currentThread());
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void whoWaitsForAValueDecodesIt(Server.Kind kind) throws Exception {
        Watched codec = new Watched();
        try (Server server = Server.start(kind);
                CacheClient<String> client =
                        Patient.builder().nodes(List.of(server.node())).build(codec)) {
            BlockingCacheClient<String> cache = client.blocking();
            cache.set("a", "1", TTL);
            cache.set("b", "2", TTL);
            assertEquals("1", cache.get("a"));
            assertEquals(Map.of("a", "1", "b", "2"), cache.getMany(List.of("a", "b", "c")));
            assertEquals("1", cache.getOrLoad("a", LoadOptions.ttl(TTL), () -> "loaded"));
            assertEquals(Set.of(Thread.currentThread()), codec.threads);
        }
    }

    @ParameterizedTest
    @EnumSource(CacheClientBuilder.Transport.class)
    void everyTransportOfThisMachineWorks(CacheClientBuilder.Transport transport) throws Exception {
        try (Server server = Server.memcached(0);
                CacheClient<String> client =
                        Patient.builder()
                                .nodes(List.of(server.node()))
                                .transport(transport)
                                .connections(2)
                                .build(Codecs.string())) {
            client.set("k", "v", TTL).toCompletableFuture().join();
            for (int i = 0; i < 100; i++) {
                assertEquals("v", client.get("k").toCompletableFuture().join());
            }
        } catch (CacheException.Configuration e) {
            // A container may forbid io_uring. Then the client must report that, and no other
            // transport may be missing.
            assertEquals(CacheClientBuilder.Transport.IO_URING, transport);
        }
    }

    /** Records metrics. */
    private static final class Recorder implements CacheMetrics {
        final Map<String, AtomicInteger> counts = new ConcurrentHashMap<>();
        final List<IntSupplier> gauges = new ArrayList<>();

        private void count(String what) {
            counts.computeIfAbsent(what, name -> new AtomicInteger()).incrementAndGet();
        }

        @Override
        public void request(String node, String operation, Outcome outcome, long latency_ns) {
            assertTrue(latency_ns > 0);
            count(operation + " " + outcome);
        }

        @Override
        public void local(boolean hit) {
            count("local " + hit);
        }

        @Override
        public void connected(String node, boolean again) {
            count("connected " + again);
        }

        @Override
        public void disconnected(String node) {
            count("disconnected");
        }

        @Override
        public void gauge(String node, IntSupplier inFlight) {
            gauges.add(inFlight);
        }
    }

    @Test
    void metricsTellOfHitsMissesLatencyAndReconnects() throws Exception {
        Recorder recorder = new Recorder();
        Server server = Server.memcached(0);
        try (CacheClient<String> client =
                Patient.builder()
                        .nodes(List.of(server.node()))
                        .metrics(recorder)
                        .backoff(Duration.ofMillis(1), Duration.ofMillis(10))
                        .localCache(LocalCacheOptions.confirmed(1000))
                        .build(Codecs.string())) {
            BlockingCacheClient<String> cache = client.blocking();
            cache.set("k", "v", TTL);
            cache.get("k");
            cache.get("none");
            client.get("k").toCompletableFuture().join();
            cache.get("k", TTL);
            cache.get("k", TTL);
            assertEquals(1, recorder.counts.get("set HIT").get());
            Await.until("the hits", () -> recorder.counts.get("get HIT").get() == 3);
            assertEquals(1, recorder.counts.get("get MISS").get());
            assertEquals(1, recorder.counts.get("local true").get());
            assertEquals(1, recorder.counts.get("local false").get());
            assertEquals(2, recorder.counts.get("connected false").get());
            assertEquals(0, recorder.gauges.get(0).getAsInt());
            assertFalse(recorder.counts.containsKey("connected true"));
            int port = server.port();
            server.kill();
            Await.until("the loss", () -> recorder.counts.containsKey("disconnected"));
            server = Server.memcached(port);
            Await.until("the return", () -> recorder.counts.containsKey("connected true"));
        } finally {
            server.close();
        }
    }
}
