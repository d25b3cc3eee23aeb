package cellar.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Cable;
import cellar.client.testing.Classic;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** The behaviour of every server, through both interfaces of the client. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class ContractTest {
    private static final Duration TTL = Duration.ofMinutes(5);

    Server server;
    private CacheClient<String> client;
    private BlockingCacheClient<String> cache;

    /** Starts the server; null for none. */
    abstract Server start() throws Exception;

    Node node() {
        return server.node();
    }

    /** Returns a builder of its clients. */
    CacheClientBuilder builder() {
        return Patient.builder().nodes(List.of(node()));
    }

    @BeforeAll
    void open() throws Exception {
        server = start();
        client = client(Codecs.string());
        cache = client.blocking();
    }

    @AfterAll
    void shut() throws Exception {
        client.close();
        if (server != null) {
            server.close();
        }
    }

    @BeforeEach
    void empty() {
        cache.flushAll();
    }

    private static <T> T join(java.util.concurrent.CompletionStage<T> stage) {
        return stage.toCompletableFuture().join();
    }

    @Test
    void aValueIsReadBackThroughBothFaces() {
        cache.set("k", "välue", TTL);
        assertEquals("välue", cache.get("k"));
        assertEquals("välue", join(client.get("k")));
        join(client.set("k", "other", Ttl.NEVER));
        assertEquals("other", cache.get("k"));
    }

    @Test
    void aMissIsNullAndAnEmptyValueIsNot() {
        assertNull(cache.get("none"));
        assertNull(join(client.get("none")));
        assertNull(join(client.getVersioned("none")));
        cache.set("empty", "", TTL);
        assertEquals("", cache.get("empty"));
    }

    @Test
    void addAndReplaceDependOnWhatIsThere() {
        assertFalse(cache.replace("k", "0", TTL));
        assertTrue(cache.add("k", "1", TTL));
        assertFalse(cache.add("k", "2", TTL));
        assertTrue(cache.replace("k", "3", TTL));
        assertEquals("3", cache.get("k"));
        assertTrue(join(client.add("k2", "1", TTL)));
        assertTrue(join(client.replace("k2", "2", TTL)));
    }

    @Test
    void appendAndPrependExtendWhatIsThere() {
        assertFalse(cache.append("k", "x"));
        cache.set("k", "b", TTL);
        assertTrue(cache.append("k", "c"));
        assertTrue(cache.prepend("k", "a"));
        assertEquals("abc", cache.get("k"));
        assertTrue(join(client.append("k", "d")));
        assertTrue(join(client.prepend("k", "_")));
        assertEquals("_abcd", cache.get("k"));
    }

    @Test
    void casTellsChangedFromMissing() {
        assertEquals(CasOutcome.MISSING, cache.cas("k", "v", 1, TTL));
        cache.set("k", "v", TTL);
        Versioned<String> read = cache.getVersioned("k");
        assertNotNull(read);
        assertEquals(CasOutcome.STORED, cache.cas("k", "w", read.version(), TTL));
        assertEquals(CasOutcome.CHANGED, join(client.cas("k", "x", read.version(), TTL)));
        assertEquals(
                new Versioned<>("w", join(client.getVersioned("k")).version()),
                cache.getVersioned("k"));
    }

    @Test
    void deleteAndTouchTellWhetherThereWasAnItem() {
        assertFalse(cache.delete("k"));
        assertFalse(cache.touch("k", TTL));
        cache.set("k", "v", TTL);
        assertTrue(cache.touch("k", Duration.ofDays(90)));
        assertEquals("v", cache.get("k"));
        assertTrue(cache.delete("k"));
        assertFalse(join(client.delete("k")));
        assertNull(cache.get("k"));
    }

    @Test
    void manyAreReadAtOnceAndMissesAreLeftOut() {
        Map<String, String> stored = new HashMap<>();
        for (int i = 0; i < 500; i++) {
            stored.put("many-" + i, "value-" + i);
        }
        stored.forEach((key, value) -> cache.set(key, value, TTL));
        List<String> asked = new ArrayList<>(stored.keySet());
        asked.addAll(List.of("none-1", "none-2"));
        assertEquals(stored, cache.getMany(asked));
        assertEquals(Map.of(), cache.getMany(List.of("none-1")));
        assertEquals(Map.of(), cache.getMany(List.of()));
    }

    @Test
    void valuesOfAllSizesComeBackWhole() {
        for (int size : new int[] {1, 100, 4096, 100_000, 900_000}) {
            byte[] value = new byte[size];
            new java.util.SplittableRandom(size).nextBytes(value);
            try (CacheClient<byte[]> bytes = client(Codecs.bytes())) {
                bytes.blocking().set("large", value, TTL);
                assertArrayEquals(value, bytes.blocking().get("large"));
                assertArrayEquals(value, join(bytes.get("large")));
            }
        }
    }

    private <V> CacheClient<V> client(Codec<V> codec) {
        return builder().build(codec);
    }

    @Test
    void aValueThatIsTooLargeIsRefusedAndTheConnectionGoesOn() {
        String large = "x".repeat(3 << 20);
        assertThrows(CacheException.Refused.class, () -> cache.set("k", large, TTL));
        cache.set("small", "v", TTL);
        assertEquals("v", cache.get("small"));
    }

    @Test
    void countersCountFromBothFaces() {
        Counters counters = client.counters();
        assertNull(cache.increment("n", 1));
        assertNull(cache.getCounter("n"));
        cache.storeCounter("n", 5, TTL);
        assertEquals(8L, cache.increment("n", 3));
        assertEquals(7L, join(counters.decrement("n", 1)));
        assertEquals(0L, cache.decrement("n", 100));
        assertEquals(0L, cache.getCounter("n"));
        assertEquals(2L, cache.addOrIncrement("m", 2, TTL));
        assertEquals(4L, join(counters.addOrIncrement("m", 2, TTL)));
        assertEquals(10L, cache.addOrDecrement("d", 1, 10, TTL));
        assertEquals(9L, cache.addOrDecrement("d", 1, 10, TTL));
        assertEquals(9L, join(counters.get("d")));
        assertThrows(IllegalArgumentException.class, () -> cache.increment("n", -1));
    }

    @Test
    void aRateLimitLetsExactlyTheLimitPass() {
        AtomicInteger passed = new AtomicInteger();
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 500; i++) {
            all.add(
                    client.counters()
                            .addOrIncrement("rate", 1, Duration.ofMinutes(1))
                            .thenAccept(
                                    count -> {
                                        if (count <= 100) {
                                            passed.incrementAndGet();
                                        }
                                    })
                            .toCompletableFuture());
        }
        all.forEach(CompletableFuture::join);
        assertEquals(100, passed.get());
        assertEquals(500L, cache.getCounter("rate"));
    }

    @Test
    void keysAreListedFastAndExactly() {
        for (int i = 0; i < 300; i++) {
            cache.set("key-" + i, "v", TTL);
        }
        cache.set("with%and+", "v", TTL);
        Set<String> exact = cache.keys(Listing.EXACT);
        assertEquals(301, exact.size());
        assertTrue(exact.contains("with%and+"));
        assertTrue(cache.keys(Listing.FAST).containsAll(exact));
        cache.delete("key-0");
        assertFalse(cache.keys(Listing.EXACT).contains("key-0"));
    }

    @Test
    void oneOfManyLoadsAndAllGetTheValue() {
        AtomicInteger loads = new AtomicInteger();
        try (CacheClient<String> other = client(Codecs.string())) {
            List<CompletableFuture<String>> all = new ArrayList<>();
            CompletableFuture<String> loaded = new CompletableFuture<>();
            for (int i = 0; i < 50; i++) {
                all.add(load(i % 2 == 0 ? client : other, loads, loaded));
            }
            loaded.complete("loaded");
            all.forEach(value -> assertEquals("loaded", value.join()));
        }
        assertEquals(1, loads.get());
        assertEquals("loaded", cache.get("herd"));
    }

    private static CompletableFuture<String> load(
            CacheClient<String> from, AtomicInteger loads, CompletableFuture<String> loaded) {
        // A high patience: waiting callers load themselves after it, and a machine may be busy.
        return from.getOrLoad(
                        "herd",
                        LoadOptions.ttl(TTL).patience(TTL),
                        () -> {
                            loads.incrementAndGet();
                            return loaded;
                        })
                .toCompletableFuture();
    }

    @Test
    void aFailedLoadIsReportedAndTheNextCallerTriesAgain() {
        LoadOptions options = LoadOptions.ttl(TTL);
        CacheException.Loading failure =
                assertThrows(
                        CacheException.Loading.class,
                        () ->
                                cache.getOrLoad(
                                        "k",
                                        options,
                                        () -> {
                                            throw new IllegalStateException("no database");
                                        }));
        assertEquals("no database", failure.getCause().getMessage());
        assertEquals("v", cache.getOrLoad("k", options, () -> "v"));
        assertNull(cache.getOrLoad("nothing", options, () -> null));
        assertNull(cache.get("nothing"));
        assertTrue(cache.add("nothing", "now", TTL));
    }

    @Test
    void theBlockingLoaderRunsInTheCallersThread() {
        Thread caller = Thread.currentThread();
        List<Thread> ran = new ArrayList<>();
        cache.getOrLoad(
                "k",
                LoadOptions.ttl(TTL),
                () -> {
                    ran.add(Thread.currentThread());
                    return cache.get("something-else") + "";
                });
        assertEquals(List.of(caller), ran);
    }

    @Test
    void anInvalidatedItemIsLoadedAgain() {
        cache.set("k", "old", TTL);
        assertTrue(cache.invalidate("k", Duration.ofMinutes(1)));
        assertEquals("new", cache.getOrLoad("k", LoadOptions.ttl(TTL), () -> "new"));
        assertEquals("new", cache.get("k"));
        assertFalse(cache.invalidate("none", Duration.ofMinutes(1)));
    }

    /** Whether the server has leases, and detects changes made during a load. */
    boolean hasLeases() {
        return true;
    }

    @Test
    void aSetDuringALoadStays() {
        assertEquals("loaded", loadWhile(() -> cache.set("k", "set", TTL)));
        assertEquals("set", cache.get("k"));
    }

    @Test
    void aSetDuringALoadOfAnInvalidatedItemStays() {
        cache.set("k", "old", TTL);
        cache.invalidate("k", Duration.ofMinutes(1));
        assertEquals("loaded", loadWhile(() -> cache.set("k", "set", TTL)));
        assertEquals("set", cache.get("k"));
    }

    @Test
    void aDeleteDuringALoadLeavesNothing() {
        assertEquals("loaded", loadWhile(() -> cache.delete("k")));
        // Without leases the loaded value is added, as if the load had begun later.
        assertEquals(hasLeases() ? null : "loaded", cache.get("k"));
    }

    @Test
    void aSecondInvalidationDuringALoadIsNotLost() {
        cache.set("k", "old", TTL);
        cache.invalidate("k", Duration.ofMinutes(1));
        loadWhile(() -> cache.invalidate("k", Duration.ofMinutes(1)));
        assertEquals(
                hasLeases() ? "again" : "loaded",
                cache.getOrLoad("k", LoadOptions.ttl(TTL), () -> "again"));
    }

    @Test
    void aFlushDuringALoadLeavesNothing() {
        assertEquals("loaded", loadWhile(() -> cache.flushAll()));
        assertEquals(hasLeases() ? null : "loaded", cache.get("k"));
    }

    @Test
    void aCallerThatGivesUpTakesNothingFromTheOthers() {
        CompletableFuture<String> loaded = new CompletableFuture<>();
        AtomicInteger loads = new AtomicInteger();
        CompletableFuture<String> first = load(client, loads, loaded);
        CompletableFuture<String> second = load(client, loads, loaded);
        first.cancel(true);
        loaded.complete("loaded");
        assertEquals("loaded", second.join());
        assertEquals(1, loads.get());
        assertEquals("loaded", cache.get("herd"));
    }

    /** Loads "loaded", and runs {@code event} before the loader ends. */
    private String loadWhile(Runnable event) {
        return cache.getOrLoad(
                "k",
                LoadOptions.ttl(TTL),
                () -> {
                    event.run();
                    return "loaded";
                });
    }

    @Test
    void wrongArgumentsAreRefusedAtOnce() {
        for (String key : List.of("", "a b", "a\nb", "x".repeat(251))) {
            assertThrows(IllegalArgumentException.class, () -> client.get(key));
            assertThrows(IllegalArgumentException.class, () -> cache.get(key));
        }
        assertThrows(IllegalArgumentException.class, () -> cache.set("k", "v", Duration.ZERO));
        assertThrows(
                IllegalArgumentException.class, () -> cache.set("k", "v", Duration.ofSeconds(-1)));
        assertThrows(IllegalStateException.class, () -> client.get("k", TTL));
    }

    @Test
    void manyThreadsShareOneConnection() throws Exception {
        List<Thread> threads = new ArrayList<>();
        AtomicInteger wrong = new AtomicInteger();
        for (int t = 0; t < 32; t++) {
            int id = t;
            threads.add(
                    new Thread(
                            () -> {
                                for (int i = 0; i < 300; i++) {
                                    String key = "t-" + id + "-" + i;
                                    cache.set(key, key, TTL);
                                    if (!key.equals(cache.get(key))) {
                                        wrong.incrementAndGet();
                                    }
                                }
                            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(0, wrong.get());
    }

    /** Debian's memcached, by meta commands. */
    static final class MemcachedTest extends ContractTest {
        @Override
        Server start() throws Exception {
            return Server.start(Server.Kind.MEMCACHED);
        }
    }

    /** Cellar. */
    static final class CellarTest extends ContractTest {
        @Override
        Server start() throws Exception {
            return Server.start(Server.Kind.CELLAR);
        }
    }

    /** No server: the mode for unit tests of applications. */
    static final class InMemoryTest extends ContractTest {
        private final CacheClientBuilder builder = Patient.builder().inMemory();

        @Override
        Server start() {
            return null;
        }

        @Override
        CacheClientBuilder builder() {
            return builder;
        }
    }

    /** memcached, with a version number that has no meta commands. */
    static final class ClassicTest extends ContractTest {
        private final Classic classic = new Classic();
        private Cable cable;

        @Override
        Server start() throws Exception {
            Server memcached = Server.start(Server.Kind.MEMCACHED);
            cable = new Cable(memcached.port(), classic::filter);
            return memcached;
        }

        @Override
        Node node() {
            return Node.of("127.0.0.1", cable.port());
        }

        @Override
        boolean hasLeases() {
            return false;
        }

        @AfterAll
        void shutCable() {
            assertFalse(classic.sawMeta(), "a classic server was sent a meta command");
            cable.close();
        }
    }
}
