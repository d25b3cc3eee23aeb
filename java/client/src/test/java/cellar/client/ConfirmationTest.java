package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.AsyncView;
import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.testing.Await;
import cellar.client.testing.Cable;
import cellar.client.testing.ChangingNodes;
import cellar.client.testing.FakeMemcached;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import cellar.client.testing.Versions;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Old local copies and their versions, which a new process counts from 1 again. */
class ConfirmationTest {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final int ROUNDS = 5;

    /** The interface that a caller uses. */
    private enum Face {
        BLOCKING,
        ASYNC;

        String get(CacheClient<String> client, String key) {
            return this == BLOCKING
                    ? client.blocking().get(key, MINUTE)
                    : client.get(key, MINUTE).toCompletableFuture().join();
        }
    }

    private final AtomicLong moved_ns = new AtomicLong();
    private final List<CacheClient<String>> clients = new ArrayList<>();
    private FakeMemcached server;
    private FakeMemcached other;

    @BeforeEach
    void open() throws IOException {
        server = new FakeMemcached();
        other = new FakeMemcached();
    }

    @AfterEach
    void shut() {
        clients.forEach(CacheClient::close);
        server.close();
        other.close();
    }

    private CacheClient<String> client(Consumer<CacheClientBuilder> more) {
        CacheClientBuilder builder =
                Patient.builder()
                        .nodes(List.of(server.node()))
                        .backoff(Duration.ofMillis(1), Duration.ofMillis(10))
                        .localCache(LocalCacheOptions.confirmed(1 << 20))
                        .ticker(moved_ns::get);
        more.accept(builder);
        CacheClient<String> client = builder.build(Codecs.string());
        clients.add(client);
        return client;
    }

    private CacheClient<String> client() {
        return client(builder -> {});
    }

    /** Makes all copies older than any caller allows. */
    private void age() {
        moved_ns.addAndGet(MINUTE.toNanos() + 1);
    }

    /** Returns the value read once the client is connected again. */
    private static String eventually(Face face, CacheClient<String> client) throws Exception {
        String[] value = new String[1];
        Await.until(
                "a connection",
                () -> {
                    try {
                        value[0] = face.get(client, "k");
                        return true;
                    } catch (RuntimeException e) {
                        return false;
                    }
                });
        return value[0];
    }

    @ParameterizedTest
    @EnumSource(Face.class)
    void aVersionOfTheProcessBeforeProvesNothing(Face face) throws Exception {
        CacheClient<String> client = client();
        server.put("k", "old");
        assertEquals("old", face.get(client, "k"));
        server.restart("k", "new");
        age();
        assertEquals("new", eventually(face, client));
    }

    @ParameterizedTest
    @EnumSource(Face.class)
    void aReadThatIsRepeatedAfterARestartAsksForTheValue(Face face) throws Exception {
        CacheClient<String> client = client();
        server.put("k", "old");
        assertEquals("old", face.get(client, "k"));
        age();
        server.atNextRead(() -> server.restart("k", "new"));
        assertEquals("new", eventually(face, client));
    }

    @ParameterizedTest
    @EnumSource(Face.class)
    void aVersionOfAnotherNodeProvesNothing(Face face) throws Exception {
        CacheClient<String> client =
                client(
                        builder ->
                                builder.nodes(List.of(server.node(), other.node()))
                                        .mode(CacheClientBuilder.Mode.SHARDED_WITH_FAILOVER));
        server.put("k", "at one");
        other.put("k", "at the other");
        String first = face.get(client, "k");
        boolean isServer = first.equals("at one");
        (isServer ? server : other).close();
        age();
        assertEquals(isServer ? "at the other" : "at one", eventually(face, client));
    }

    @ParameterizedTest
    @EnumSource(Face.class)
    void aVersionOfANodeThatHasLeftProvesNothing(Face face) throws Exception {
        AtomicReference<List<Node>> nodes = new AtomicReference<>(List.of(server.node()));
        CacheClient<String> client =
                client(builder -> builder.discovery(ChangingNodes.of(nodes::get)));
        server.put("k", "old");
        other.put("k", "new");
        other.put("only-here", "v");
        assertEquals("old", face.get(client, "k"));
        nodes.set(List.of(other.node()));
        Await.until("the other node", () -> "v".equals(client.blocking().get("only-here")));
        age();
        assertEquals("new", face.get(client, "k"));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void whatHasNotChangedDoesNotComeAgain(int connections) throws Exception {
        CacheClient<String> client = client(builder -> builder.connections(connections));
        List<String> keys = IntStream.range(0, 20).mapToObj(i -> "key-" + i).toList();
        keys.forEach(key -> server.put(key, "value of " + key));
        List<String> copies = keys.stream().map(key -> Face.BLOCKING.get(client, key)).toList();
        for (int round = 1; round <= ROUNDS; round++) {
            age();
            Face face = round % 2 == 0 ? Face.ASYNC : Face.BLOCKING;
            fromManyThreads(
                    () -> {
                        for (int i = 0; i < keys.size(); i++) {
                            assertSame(copies.get(i), face.get(client, keys.get(i)));
                        }
                    });
        }
        assertEquals(keys.size(), server.values());
        // A late thread may revalidate again what another one has confirmed meanwhile.
        assertTrue(server.confirmations() >= ROUNDS * keys.size());
    }

    private static void fromManyThreads(Runnable task) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try {
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                all.add(threads.submit(task));
            }
            for (Future<?> one : all) {
                one.get();
            }
        } finally {
            threads.shutdown();
        }
    }

    @ParameterizedTest
    @EnumSource(Face.class)
    void afterAConnectionWasReplacedTheValueComesOnce(Face face) throws Exception {
        CacheClient<String> client = client();
        server.put("k", "v");
        face.get(client, "k");
        server.cut();
        age();
        assertEquals("v", eventually(face, client));
        assertEquals(2, server.values());
        assertEquals(0, server.confirmations());
        for (int round = 1; round <= ROUNDS; round++) {
            age();
            assertEquals("v", face.get(client, "k"));
            assertEquals(round, server.confirmations());
        }
        assertEquals(2, server.values());
    }

    /** Cellar's versions start at a random number, so no two processes have the same ones. */
    @Test
    @Tag("deep")
    void replicatedNodesAreNamedTheirOwnVersionsOnly() throws Exception {
        List<String> keys = IntStream.range(0, 24).mapToObj(i -> "key-" + i).toList();
        Versions versions = new Versions();
        Server first = Server.restartable();
        try (Server second = Server.start(Server.Kind.CELLAR);
                Cable toFirst = new Cable(first.port(), versions::filter);
                Cable toSecond = new Cable(second.port(), versions::filter)) {
            CacheClient<String> client = replicated(List.of(toFirst, toSecond));
            AgedReads reads = new AgedReads(client.blocking(), keys);
            keys.forEach(key -> client.blocking().set(key, "v", Duration.ofHours(1)));
            Await.until("confirmations", () -> reads.done() && versions.known() >= keys.size());
            first.close();
            Await.until("reads at the other node", reads::done);
            try (Server again = Server.cellar(first.port(), first.respPort())) {
                Await.until("both nodes", () -> reads.done() && isWhole(client));
                int before = versions.known();
                Await.until(
                        "confirmations at " + again.node(),
                        () -> reads.done() && versions.known() >= before + keys.size());
            }
        } finally {
            first.close();
        }
        assertEquals(0, versions.foreign());
    }

    private CacheClient<String> replicated(List<Cable> ways) {
        return client(
                builder ->
                        builder.nodes(
                                        ways.stream()
                                                .map(way -> Node.of("127.0.0.1", way.port()))
                                                .toList())
                                .timeout(Duration.ofMillis(1500))
                                .mode(CacheClientBuilder.Mode.REPLICATED)
                                .ticker(System::nanoTime));
    }

    private static boolean isWhole(CacheClient<String> client) {
        return ((ReplicatedCluster) ((AsyncView<String>) client).core().cluster()).isWhole();
    }

    /** Reads of all keys for which no copy is fresh enough. */
    private record AgedReads(BlockingCacheClient<String> cache, List<String> keys) {
        boolean done() {
            try {
                return keys.stream().allMatch(key -> "v".equals(cache.get(key, Duration.ZERO)));
            } catch (CacheException e) {
                return false;
            }
        }
    }
}
