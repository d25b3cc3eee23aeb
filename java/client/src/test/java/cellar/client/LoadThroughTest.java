package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Await;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Read-through with the local cache, and loaders that find nothing. */
@Tag("deep")
class LoadThroughTest {
    private static final Duration HOUR = Duration.ofHours(1);
    private static final LoadOptions THROUGH = LoadOptions.ttl(HOUR).localTtl(HOUR);
    private static final LoadOptions NEGATIVE =
            LoadOptions.ttl(HOUR).negativeTtl(Duration.ofMinutes(1));

    private final AtomicLong moved_ns = new AtomicLong();
    private final AtomicInteger requests = new AtomicInteger();

    private CacheClient<String> client(Server server, LocalCacheOptions options) {
        CacheMetrics counting =
                new CacheMetrics() {
                    @Override
                    public void request(String node, String name, Outcome end, long latency_ns) {
                        requests.incrementAndGet();
                    }
                };
        return Patient.builder()
                .nodes(List.of(server.node()))
                .localCache(options)
                .metrics(counting)
                .ticker(() -> System.nanoTime() + moved_ns.get())
                .build(Codecs.string());
    }

    private static LocalCacheOptions options(Server server) {
        return server.respPort() == 0
                ? LocalCacheOptions.confirmed(1 << 20)
                : LocalCacheOptions.tracked(1 << 20, server.respPort());
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void aLocalHitAsksNobody(Server.Kind kind) throws Exception {
        try (Server server = Server.start(kind);
                CacheClient<String> client = client(server, options(server))) {
            BlockingCacheClient<String> cache = client.blocking();
            AtomicInteger loads = new AtomicInteger();
            assertEquals("1", cache.getOrLoad("k", THROUGH, () -> "" + loads.incrementAndGet()));
            Await.until(
                    "a copy",
                    () -> {
                        String value = cache.getOrLoad("k", THROUGH, () -> "other");
                        int before = requests.get();
                        return value == cache.getOrLoad("k", THROUGH, () -> "other")
                                && requests.get() == before;
                    });
            assertEquals(1, loads.get());
            int before = requests.get();
            String copy = cache.getOrLoad("k", THROUGH, () -> "other");
            assertSame(
                    copy, client.getOrLoad("k", THROUGH, () -> null).toCompletableFuture().join());
            assertEquals(before, requests.get());
            cache.set("k", "new", HOUR);
            assertEquals("new", cache.getOrLoad("k", THROUGH, () -> "other"));
        }
    }

    @Test
    void theDefaultIsForAllReadsThatDoNotSay() throws Exception {
        try (Server server = Server.start(Server.Kind.MEMCACHED);
                CacheClient<String> client =
                        client(server, LocalCacheOptions.confirmed(1 << 20).localTtl(HOUR));
                CacheClient<String> other = client(server, LocalCacheOptions.confirmed(1 << 20))) {
            BlockingCacheClient<String> cache = client.blocking();
            other.blocking().set("k", "old", HOUR);
            assertEquals("old", cache.get("k"));
            other.blocking().set("k", "new", HOUR);
            assertEquals("old", cache.get("k"));
            assertEquals("old", client.get("k").toCompletableFuture().join());
            assertEquals(Map.of("k", "old"), cache.getMany(List.of("k", "none")));
            assertEquals("old", cache.getOrLoad("k", LoadOptions.ttl(HOUR), () -> "loaded"));
            assertEquals("new", cache.get("k", Duration.ZERO));
            assertEquals("new", cache.get("k"));
        }
    }

    @Test
    void viewsShareCopiesButNotTheirForm() throws Exception {
        try (Server server = Server.start(Server.Kind.CELLAR);
                CacheClient<String> client = client(server, options(server))) {
            CacheClient<byte[]> bytes = client.withCodec(Codecs.bytes());
            client.blocking().set("k", "v", HOUR);
            assertEquals("v", client.blocking().get("k", HOUR));
            assertEquals(1, bytes.blocking().get("k", HOUR).length);
            assertEquals("v", client.blocking().get("k", HOUR));
            bytes.blocking().set("k", new byte[] {'w'}, HOUR);
            assertEquals("w", client.blocking().get("k", HOUR));
        }
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void aThousandReadersOfAnAbsentKeyTakeOneLoad(Server.Kind kind) throws Exception {
        try (Server server = Server.start(kind);
                CacheClient<String> one = client(server, options(server));
                CacheClient<String> two = client(server, options(server))) {
            AtomicInteger attempts = new AtomicInteger();
            Await.until(
                    "one load", () -> takeOneLoad(one, two, "absent" + attempts.incrementAndGet()));
        }
    }

    /** False if it took so long that one client no longer knows that the other found nothing. */
    private static boolean takeOneLoad(
            CacheClient<String> one, CacheClient<String> two, String absent) throws Exception {
        long begin_ns = System.nanoTime();
        AtomicInteger loads = new AtomicInteger();
        CompletableFuture<String> nothing = new CompletableFuture<>();
        nothing.completeOnTimeout(null, 300, TimeUnit.MILLISECONDS);
        List<CompletableFuture<String>> answers = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            answers.add(
                    (i % 2 == 0 ? one : two)
                            .getOrLoad(
                                    absent,
                                    NEGATIVE,
                                    () -> {
                                        loads.incrementAndGet();
                                        return nothing;
                                    })
                            .toCompletableFuture());
        }
        for (CompletableFuture<String> answer : answers) {
            assertNull(answer.get(20, TimeUnit.SECONDS));
        }
        if (System.nanoTime() - begin_ns < 1_000_000_000) {
            assertEquals(1, loads.get(), "both clients stand for a process each");
        }
        return loads.get() == 1;
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void thatNothingWasFoundIsRemembered(Server.Kind kind) throws Exception {
        try (Server server = Server.start(kind);
                CacheClient<String> client = client(server, options(server));
                CacheClient<String> other = client(server, options(server))) {
            BlockingCacheClient<String> cache = client.blocking();
            List<String> loads = Collections.synchronizedList(new ArrayList<>());
            assertNull(cache.getOrLoad("k", NEGATIVE, () -> found(loads, null)));
            assertNull(cache.getOrLoad("k", NEGATIVE, () -> found(loads, "v")));
            assertNull(client.getOrLoad("k", NEGATIVE, () -> null).toCompletableFuture().join());
            assertEquals(1, loads.size());
            moved_ns.addAndGet(Duration.ofSeconds(61).toNanos());
            assertEquals("v", cache.getOrLoad("k", NEGATIVE, () -> found(loads, "v")));
            // A value that another client stores is found although the loader found nothing.
            assertNull(cache.getOrLoad("l", NEGATIVE, () -> found(loads, null)));
            other.blocking().set("l", "stored", HOUR);
            Await.until(
                    "the value of the other",
                    () -> "stored".equals(cache.getOrLoad("l", NEGATIVE, () -> "loaded")));
            // A delete through this client ends it.
            assertNull(cache.getOrLoad("m", NEGATIVE, () -> found(loads, null)));
            cache.delete("m");
            assertEquals("now", cache.getOrLoad("m", NEGATIVE, () -> found(loads, "now")));
        }
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void aWriteWhileALoaderRunsIsNotOverwritten(Server.Kind kind) throws Exception {
        try (Server server = Server.start(kind);
                CacheClient<String> client = client(server, options(server));
                CacheClient<String> other = client(server, options(server))) {
            LoadOptions load = LoadOptions.ttl(HOUR);
            for (BlockingCacheClient<String> writer :
                    List.of(client.blocking(), other.blocking())) {
                BlockingCacheClient<String> cache = client.blocking();
                cache.getOrLoad(
                        "set",
                        load,
                        () -> {
                            writer.set("set", "new", HOUR);
                            return "old";
                        });
                assertEquals("new", cache.get("set"));
                assertEquals("new", other.blocking().get("set"));
                writer.delete("set");
            }
        }
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void aLoaderThatWaitedInVainForAnotherOverwritesNothing(Server.Kind kind) throws Exception {
        try (Server server = Server.start(kind);
                CacheClient<String> stuck = client(server, options(server));
                CacheClient<String> impatient = client(server, options(server));
                CacheClient<String> other = client(server, options(server))) {
            CompletableFuture<String> never = new CompletableFuture<>();
            AtomicInteger loads = new AtomicInteger();
            CompletableFuture<String> first =
                    stuck.getOrLoad(
                                    "k",
                                    LoadOptions.ttl(HOUR),
                                    () -> {
                                        loads.incrementAndGet();
                                        return never;
                                    })
                            .toCompletableFuture();
            Await.until("the first loader runs", () -> loads.get() == 1);
            LoadOptions brief = LoadOptions.ttl(HOUR).patience(Duration.ofMillis(50));
            String loaded =
                    impatient
                            .blocking()
                            .getOrLoad(
                                    "k",
                                    brief,
                                    () -> {
                                        other.blocking().set("k", "new", HOUR);
                                        return "old";
                                    });
            assertEquals("old", loaded);
            never.complete("older");
            assertEquals("older", first.get(20, TimeUnit.SECONDS));
            assertEquals("new", other.blocking().get("k"));
            assertEquals("new", impatient.blocking().get("k"));
        }
    }

    private static String found(List<String> loads, String value) {
        loads.add("load");
        return value;
    }

    @Test
    void withoutNegativeTtlALoaderIsAskedEachTime() throws Exception {
        try (Server server = Server.start(Server.Kind.CELLAR);
                CacheClient<String> client = client(server, options(server))) {
            List<String> loads = Collections.synchronizedList(new ArrayList<>());
            LoadOptions options = LoadOptions.ttl(HOUR);
            assertNull(client.blocking().getOrLoad("k", options, () -> found(loads, null)));
            assertNull(client.blocking().getOrLoad("k", options, () -> found(loads, null)));
            assertEquals(2, loads.size());
        }
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void manyAreStoredAndRemovedAtOnce(Server.Kind kind) throws Exception {
        try (Server server = Server.start(kind);
                CacheClient<String> client = client(server, options(server))) {
            BlockingCacheClient<String> cache = client.blocking();
            Map<String, String> values = new java.util.HashMap<>();
            for (int i = 0; i < 5000; i++) {
                values.put("k" + i, "v" + i);
            }
            cache.get("k1", HOUR);
            cache.setMany(values, HOUR);
            assertEquals(values, cache.getMany(values.keySet()));
            assertEquals("v1", cache.get("k1", HOUR));
            assertEquals(4999, cache.deleteMany(new ArrayList<>(values.keySet()).subList(0, 4999)));
            assertEquals(1, cache.deleteMany(values.keySet()));
            assertTrue(cache.getMany(values.keySet()).isEmpty());
        }
    }
}
