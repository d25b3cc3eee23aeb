package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.AsyncView;
import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.internal.wire.Keys;
import cellar.client.testing.Await;
import cellar.client.testing.Cable;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Local caches of several clients with several replicated nodes, some of which fail and come back.
 *
 * <p>Each read from a node decodes a new object, so the test recognises a copy by its identity.
 */
@Tag("deep")
class ReplicatedLocalCacheTest {
    private static final Duration HOUR = Duration.ofHours(1);
    private static final Duration SHORT = Duration.ofMillis(500);

    /** How long a copy may be returned without an answer from its node. */
    private static final Duration ALIVE = Duration.ofSeconds(2);

    /** Maximum age of a value read from the nodes. */
    private static final Duration VIEW = Duration.ofSeconds(1);

    /** Additional time for a slow machine. */
    private static final Duration SLACK = Duration.ofSeconds(6);

    /** Time-out of a request: a busy machine takes seconds. */
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    private static final int NODES = 3;

    /** Enough keys for each node to be the home of some. */
    private static final List<String> KEYS =
            IntStream.range(0, 24).mapToObj(i -> "key-" + i).toList();

    /** How a local cache keeps its copies up to date. */
    private enum Kept {
        TRACKED,
        CONFIRMED
    }

    /** When a killed node restarts. */
    private enum Returns {
        AT_ONCE,
        AFTER_CHANGES
    }

    /** A client with its connections to each node, for data and for invalidations. */
    private record Wired(CacheClient<String> client, List<Cable> data, List<Cable> told) {
        BlockingCacheClient<String> cache() {
            return client.blocking();
        }
    }

    private final List<Server> servers = new ArrayList<>();
    private final List<CacheClient<String>> clients = new ArrayList<>();
    private final List<Cable> cables = new ArrayList<>();

    @BeforeEach
    void open() throws Exception {
        for (int i = 0; i < NODES; i++) {
            servers.add(Server.restartable());
        }
    }

    @AfterEach
    void shut() {
        clients.forEach(CacheClient::close);
        cables.forEach(Cable::close);
        servers.forEach(Server::close);
    }

    // Clients.

    private static String name(int node) {
        return "node-" + node;
    }

    private CacheClient<String> client(
            List<Integer> data, List<Integer> told, Kept kept, Duration timeout) {
        List<Node> nodes = new ArrayList<>();
        Map<String, Integer> ports = new HashMap<>();
        for (int i = 0; i < NODES; i++) {
            nodes.add(Node.of("127.0.0.1", data.get(i)).name(name(i)));
            ports.put(name(i), told.get(i));
        }
        LocalCacheOptions options =
                kept == Kept.TRACKED
                        ? LocalCacheOptions.tracked(1 << 20, told.get(0))
                                .ports(ports)
                                .localTtl(HOUR)
                        : LocalCacheOptions.confirmed(1 << 20).localTtl(SHORT);
        CacheClient<String> client =
                CacheClient.builder()
                        .nodes(nodes)
                        .mode(CacheClientBuilder.Mode.REPLICATED)
                        .timeout(timeout)
                        .backoff(Duration.ofMillis(5), Duration.ofMillis(50))
                        .localCache(options)
                        .build(Codecs.string());
        clients.add(client);
        return client;
    }

    private CacheClient<String> client(Kept kept) {
        return client(
                servers.stream().map(Server::port).toList(),
                servers.stream().map(Server::respPort).toList(),
                kept,
                PATIENCE);
    }

    private BlockingCacheClient<String> tracked() {
        return client(Kept.TRACKED).blocking();
    }

    private Wired wired(Duration timeout) throws Exception {
        List<Cable> data = new ArrayList<>();
        List<Cable> told = new ArrayList<>();
        for (Server server : servers) {
            data.add(new Cable(server.port()));
            told.add(new Cable(server.respPort()));
        }
        cables.addAll(data);
        cables.addAll(told);
        CacheClient<String> client =
                client(
                        data.stream().map(Cable::port).toList(),
                        told.stream().map(Cable::port).toList(),
                        Kept.TRACKED,
                        timeout);
        return new Wired(client, data, told);
    }

    private static void become(List<Cable> ways, Cable.State state) {
        ways.forEach(way -> way.become(state));
    }

    private static ReplicatedCluster cluster(CacheClient<String> client) {
        return (ReplicatedCluster) ((AsyncView<String>) client).core().cluster();
    }

    private static String home(CacheClient<String> client, String key) {
        return cluster(client).home(Keys.bytes(key)).node().name();
    }

    /**
     * Waits until all nodes are in, and asserts the condition meanwhile and once more afterwards.
     */
    private void untilWhole(Runnable holds) throws Exception {
        Await.until(
                "the nodes are trusted again",
                () -> {
                    holds.run();
                    return clients.stream().allMatch(client -> cluster(client).isWhole());
                });
        holds.run();
    }

    // What is awaited and asserted.

    private static void set(BlockingCacheClient<String> cache, String value) {
        KEYS.forEach(key -> cache.set(key, value, HOUR));
    }

    /** Waits until {@code cache} returns copies of all keys with this value. */
    private static void hold(BlockingCacheClient<String> cache, String value) throws Exception {
        for (String key : KEYS) {
            hold(cache, key, value);
        }
    }

    private static void hold(BlockingCacheClient<String> cache, String key, @Nullable String value)
            throws Exception {
        Await.until(
                "a copy of " + key + " = " + value,
                () -> {
                    String copy = cache.get(key);
                    return Objects.equals(value, copy) && copy == cache.get(key);
                });
    }

    private static void untilAll(BlockingCacheClient<String> cache, @Nullable String value)
            throws Exception {
        for (String key : KEYS) {
            Await.until(key + " = " + value, () -> Objects.equals(value, cache.get(key)));
        }
    }

    /** As {@link #untilAll}, and asserts that it happens soon enough after {@code since_ns}. */
    private static void untilAll(
            BlockingCacheClient<String> cache, String value, long since_ns, Duration bound)
            throws Exception {
        for (String key : KEYS) {
            long[] lastOld_ns = {since_ns};
            Await.until(
                    key + " = " + value,
                    () -> {
                        long begun_ns = System.nanoTime();
                        boolean current = value.equals(cache.get(key));
                        lastOld_ns[0] = current ? lastOld_ns[0] : begun_ns;
                        return current;
                    });
            Duration late = Duration.ofNanos(lastOld_ns[0] - since_ns);
            assertTrue(late.compareTo(bound.plus(SLACK)) < 0, () -> key + " was old for " + late);
        }
    }

    private static void assertAll(BlockingCacheClient<String> cache, @Nullable String value) {
        KEYS.forEach(key -> assertEquals(value, cache.get(key), key));
    }

    // Own changes.

    /** A change of a key, with its values before and after. */
    private record Own(@Nullable String before, Consumer<String> change, @Nullable String after) {}

    @Test
    void everyOwnChangeIsReadBackAtOnce() throws Exception {
        CacheClient<String> client = client(Kept.TRACKED);
        BlockingCacheClient<String> cache = client.blocking();
        List<Own> changes =
                List.of(
                        new Own(null, key -> cache.add(key, "1", HOUR), "1"),
                        new Own("1", key -> cache.append(key, "2"), "12"),
                        new Own("12", key -> cache.prepend(key, "3"), "312"),
                        new Own("312", key -> cache.increment(key, 8), "320"),
                        new Own("320", key -> cache.decrement(key, 9), "311"),
                        new Own("311", key -> cache.replace(key, "a", HOUR), "a"),
                        new Own("a", key -> cache.delete(key), null),
                        new Own(null, key -> cache.storeCounter(key, 9, HOUR), "9"),
                        new Own("9", key -> cache.addOrIncrement(key, 1, HOUR), "10"),
                        new Own("10", key -> cache.set(key, "b", HOUR), "b"),
                        new Own("b", key -> cache.setMany(Map.of(key, "c"), HOUR), "c"),
                        new Own(
                                "c",
                                key -> client.append(key, "d").toCompletableFuture().join(),
                                "cd"),
                        new Own("cd", key -> cache.deleteMany(List.of(key)), null));
        for (Own own : changes) {
            for (String key : KEYS) {
                hold(cache, key, own.before);
                own.change.accept(key);
                assertEquals(own.after, cache.get(key), key);
                assertEquals(own.after, cache.get(key), key);
                assertEquals(own.after, cache.get(key, Duration.ZERO), key);
            }
        }
    }

    // Changes by others.

    @Test
    void aChangeByAnotherClientDropsTheCopiesOfAll() throws Exception {
        BlockingCacheClient<String> writer = tracked();
        List<BlockingCacheClient<String>> readers = List.of(tracked(), tracked());
        set(writer, "1");
        for (BlockingCacheClient<String> reader : readers) {
            hold(reader, "1");
        }
        for (int i = 2; i < 10; i++) {
            String value = "" + i;
            set(writer, value);
            for (BlockingCacheClient<String> reader : readers) {
                hold(reader, value);
            }
        }
        KEYS.forEach(key -> writer.increment(key, 1));
        for (BlockingCacheClient<String> reader : readers) {
            hold(reader, "10");
        }
        KEYS.forEach(key -> writer.append(key, "x"));
        for (BlockingCacheClient<String> reader : readers) {
            hold(reader, "10x");
        }
        KEYS.forEach(writer::delete);
        for (BlockingCacheClient<String> reader : readers) {
            untilAll(reader, null);
            assertAll(reader, null);
        }
        KEYS.forEach(key -> writer.add(key, "again", HOUR));
        for (BlockingCacheClient<String> reader : readers) {
            hold(reader, "again");
        }
        writer.flushAll();
        for (BlockingCacheClient<String> reader : readers) {
            untilAll(reader, null);
        }
    }

    @Test
    void manyAtOnceAndLoadsGoThroughTheLocalCacheToo() throws Exception {
        BlockingCacheClient<String> writer = tracked();
        BlockingCacheClient<String> reader = tracked();
        set(writer, "1");
        hold(reader, "1");
        Map<String, String> many = reader.getMany(KEYS);
        assertEquals(KEYS.size(), many.size());
        for (String key : KEYS) {
            assertTrue(many.get(key) == reader.get(key), "getMany has not served the copy");
        }
        set(writer, "2");
        Map<String, String> expected = new HashMap<>();
        KEYS.forEach(key -> expected.put(key, "2"));
        Await.until("all are new", () -> expected.equals(reader.getMany(KEYS)));

        AtomicInteger loads = new AtomicInteger();
        String key = KEYS.get(0);
        Callable<String> load =
                () ->
                        reader.getOrLoad(
                                key,
                                LoadOptions.ttl(HOUR),
                                () -> "load-" + loads.incrementAndGet());
        writer.delete(key);
        Await.until("the removal", () -> reader.get(key) == null);
        Await.until("a copy of what was loaded", () -> load.call() == load.call());
        assertEquals("load-1", writer.get(key));
        writer.set(key, "3", HOUR);
        Await.until("the change", () -> "3".equals(load.call()));
        assertEquals(1, loads.get());
    }

    // Nodes that die and return.

    @ParameterizedTest
    @EnumSource(Returns.class)
    void aNodeThatDiesAndReturnsLeavesNoOldCopies(Returns returns) throws Exception {
        dieAndReturn(returns, Kept.TRACKED, ALIVE);
    }

    @Test
    void copiesThatAreConfirmedAreNotOldEither() throws Exception {
        dieAndReturn(Returns.AFTER_CHANGES, Kept.CONFIRMED, SHORT.plus(VIEW));
    }

    private void dieAndReturn(Returns returns, Kept kept, Duration bound) throws Exception {
        CacheClient<String> writing = client(kept);
        BlockingCacheClient<String> writer = writing.blocking();
        List<BlockingCacheClient<String>> readers =
                List.of(client(kept).blocking(), client(kept).blocking());
        set(writer, "old");
        writer.set("removed", "old", HOUR);
        for (BlockingCacheClient<String> reader : readers) {
            hold(reader, "old");
            assertEquals("old", reader.get("removed"));
        }
        Server victim = servers.get(0);
        assertTrue(KEYS.stream().anyMatch(key -> home(writing, key).equals(name(0))));
        victim.kill();
        if (returns == Returns.AT_ONCE) {
            servers.set(0, Server.cellar(victim.port(), victim.respPort()));
        }
        set(writer, "new");
        writer.delete("removed");
        long acknowledged_ns = System.nanoTime();
        for (BlockingCacheClient<String> reader : readers) {
            untilAll(reader, "new", acknowledged_ns, bound);
            Await.until("the removal", () -> reader.get("removed") == null);
        }
        if (returns == Returns.AFTER_CHANGES) {
            servers.set(0, Server.cellar(victim.port(), victim.respPort()));
        }
        untilWhole(
                () -> {
                    for (BlockingCacheClient<String> reader : readers) {
                        assertAll(reader, "new");
                        assertNull(reader.get("removed"));
                    }
                });
        assertTrue(KEYS.stream().anyMatch(key -> home(writing, key).equals(name(0))));
        for (BlockingCacheClient<String> reader : readers) {
            hold(reader, "new");
        }
        set(writer, "newer");
        for (BlockingCacheClient<String> reader : readers) {
            hold(reader, "newer");
            assertNull(reader.get("removed"));
        }
    }

    @Test
    void aNodeThatStandsStillLeavesNoOldCopies() throws Exception {
        BlockingCacheClient<String> writer = tracked();
        BlockingCacheClient<String> reader = tracked();
        set(writer, "old");
        hold(reader, "old");
        servers.get(0).signal("STOP");
        try {
            set(writer, "new");
            untilAll(reader, "new", System.nanoTime(), ALIVE);
        } finally {
            servers.get(0).signal("CONT");
        }
        untilWhole(() -> assertAll(reader, "new"));
        set(writer, "newer");
        hold(reader, "newer");
    }

    // Ways to the nodes that break.

    @Test
    void copiesEndWhereNobodyIsToldOfChanges() throws Exception {
        BlockingCacheClient<String> writer = tracked();
        Wired reader = wired(PATIENCE);
        set(writer, "old");
        hold(reader.cache(), "old");
        become(reader.told(), Cable.State.HELD);
        set(writer, "new");
        untilAll(reader.cache(), "new", System.nanoTime(), ALIVE);
        become(reader.told(), Cable.State.WHOLE);
        hold(reader.cache(), "new");
        become(reader.told(), Cable.State.CLOSED);
        set(writer, "newer");
        untilAll(reader.cache(), "newer", System.nanoTime(), ALIVE);
        become(reader.told(), Cable.State.WHOLE);
        hold(reader.cache(), "newer");
    }

    @Test
    void aHomeThatWritersCannotReachLeavesNoOldCopies() throws Exception {
        Wired writer = wired(PATIENCE);
        BlockingCacheClient<String> reader = tracked();
        set(writer.cache(), "old");
        hold(reader, "old");
        writer.data().get(0).become(Cable.State.CLOSED);
        set(writer.cache(), "new");
        untilAll(reader, "new", System.nanoTime(), ALIVE);
        hold(reader, "new");
        writer.data().get(0).become(Cable.State.WHOLE);
        untilWhole(() -> assertAll(reader, "new"));
        set(writer.cache(), "newer");
        hold(reader, "newer");
    }

    /** The invalidation connections to the old home still work, but it has nothing to report. */
    @Test
    void copiesEndWithTheirHome() throws Exception {
        Wired writer = wired(PATIENCE);
        Wired reader = wired(PATIENCE);
        set(writer.cache(), "old");
        hold(reader.cache(), "old");
        List<Cable> ways = List.of(writer.data().get(0), reader.data().get(0));
        become(ways, Cable.State.CLOSED);
        set(writer.cache(), "new");
        untilAll(reader.cache(), "new", System.nanoTime(), VIEW);
        hold(reader.cache(), "new");
        become(ways, Cable.State.WHOLE);
        untilWhole(() -> assertAll(reader.cache(), "new"));
    }

    /** The old home still answers the reader, but does not report that it is no longer the home. */
    @Test
    void localTtlBoundsCopiesOfAReaderWhoIsCutOff() throws Exception {
        Duration localTtl = Duration.ofSeconds(3);
        Wired writer = wired(PATIENCE);
        Wired reader = wired(Duration.ofSeconds(30));
        String key =
                KEYS.stream()
                        .filter(any -> home(writer.client(), any).equals(name(0)))
                        .findFirst()
                        .orElseThrow();
        writer.cache().set(key, "old", HOUR);
        Await.until(
                "a copy",
                () -> reader.cache().get(key, localTtl) == reader.cache().get(key, localTtl));
        become(reader.data(), Cable.State.HELD);
        writer.data().get(0).become(Cable.State.CLOSED);
        writer.cache().set(key, "new", HOUR);
        long acknowledged_ns = System.nanoTime();
        List<CompletableFuture<String>> asked = new ArrayList<>();
        Await.until(
                "the end of the copy",
                () -> {
                    CompletableFuture<String> read =
                            reader.client().get(key, localTtl).toCompletableFuture();
                    asked.add(read);
                    return !read.isDone();
                });
        Duration served = Duration.ofNanos(System.nanoTime() - acknowledged_ns);
        assertTrue(served.compareTo(localTtl.plus(SLACK)) < 0, () -> "served for " + served);
        become(reader.data(), Cable.State.WHOLE);
        assertEquals("new", asked.get(asked.size() - 1).join());
        writer.data().get(0).become(Cable.State.WHOLE);
        untilWhole(() -> assertEquals("new", reader.cache().get(key)));
    }
}
