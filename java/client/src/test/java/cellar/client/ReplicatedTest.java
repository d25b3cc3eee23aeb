package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.AsyncView;
import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.internal.wire.Keys;
import cellar.client.testing.Await;
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
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;

/** Several replicated nodes, some of which fail and come back. */
@Tag("deep")
class ReplicatedTest {
    private static final Duration TTL = Duration.ofSeconds(1000);

    /** Time-out of a request: a busy machine takes seconds. */
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    /** Time-out in tests in which some answers never come. */
    private static final Duration SHORT = Duration.ofMillis(1500);

    private static final String SILENCE = "silence";

    private final List<Server> servers = new ArrayList<>();
    private CacheClient<String> client;
    private BlockingCacheClient<String> cache;

    @BeforeEach
    void open(TestInfo test) throws Exception {
        for (int i = 0; i < 3; i++) {
            servers.add(Server.memcached(0));
        }
        client =
                CacheClient.builder()
                        .nodes(servers.stream().map(Server::node).toList())
                        .mode(CacheClientBuilder.Mode.REPLICATED)
                        .timeout(test.getTags().contains(SILENCE) ? SHORT : PATIENCE)
                        .backoff(Duration.ofMillis(5), Duration.ofMillis(50))
                        .build(Codecs.string());
        cache = client.blocking();
    }

    @AfterEach
    void shut() {
        client.close();
        servers.forEach(Server::close);
    }

    private ReplicatedCluster cluster() {
        return (ReplicatedCluster) ((AsyncView<String>) client).core().cluster();
    }

    private Server home(String key) {
        int port = cluster().home(Keys.bytes(key)).node().port();
        return servers.stream().filter(server -> server.port() == port).findFirst().orElseThrow();
    }

    private static boolean holds(Server server, String key, String value) throws Exception {
        String answer = server.ask("get " + key + "\r\n", "END");
        // A copy's order follows its value.
        return answer.contains("\n" + value + "\n") || answer.contains("\n" + value + "\u0001");
    }

    @Test
    void whatIsWrittenDuringALoadOfAnInvalidatedItemStays() {
        cache.set("k", "old", TTL);
        cache.set("gone", "old", TTL);
        assertTrue(cache.invalidate("k", TTL));
        assertTrue(cache.invalidate("gone", TTL));
        LoadOptions options = LoadOptions.ttl(TTL);
        cache.getOrLoad(
                "k",
                options,
                () -> {
                    cache.set("k", "set", TTL);
                    return "loaded";
                });
        assertEquals("set", cache.get("k"));
        cache.getOrLoad(
                "gone",
                options,
                () -> {
                    cache.delete("gone");
                    return "loaded";
                });
        assertNull(cache.get("gone"));
        assertTrue(cache.invalidate("k", TTL));
        assertEquals("new", cache.getOrLoad("k", options, () -> "new"));
        assertEquals("new", cache.get("k"));
    }

    private void untilEverywhere(String key, String value) throws Exception {
        for (Server server : servers) {
            Await.until(key + " on " + server.port(), () -> holds(server, key, value));
        }
    }

    @Test
    void everyNodeGetsEveryChange() throws Exception {
        cache.set("k", "v", TTL);
        untilEverywhere("k", "v");
        cache.append("k", "w");
        untilEverywhere("k", "vw");
        client.set("k", "x", TTL).toCompletableFuture().join();
        untilEverywhere("k", "x");
        assertTrue(cache.delete("k"));
        // All nodes in use have it now; a node that a busy machine delayed is filled first.
        Await.until("all nodes are trusted", cluster()::isWhole);
        for (Server server : servers) {
            Matcher flags =
                    Pattern.compile("HD f(\\d+)").matcher(server.ask("mg k f\r\nmn\r\n", "MN"));
            assertTrue(flags.find() && Long.parseLong(flags.group(1)) >= 1L << 31);
        }
        assertNull(cache.get("k"));
        assertTrue(cache.add("k", "y", TTL));
        untilEverywhere("k", "y");
    }

    @Test
    void manyAreReadThoughOneNodeHasLostItsOwn() throws Exception {
        Map<String, String> stored = new HashMap<>();
        for (int i = 0; i < 100; i++) {
            cache.set("m" + i, "v" + i, TTL);
            stored.put("m" + i, "v" + i);
        }
        for (Map.Entry<String, String> item : stored.entrySet()) {
            untilEverywhere(item.getKey(), item.getValue());
        }
        servers.get(0).ask("flush_all\r\n", "OK");
        assertEquals(stored, cache.getMany(stored.keySet()));
        servers.get(1).kill();
        assertEquals(stored, cache.getMany(stored.keySet()));
    }

    @Test
    void serversWithoutMetaCommandsAreRefused() throws Exception {
        Classic old = new Classic();
        try (Cable one = new Cable(servers.get(0).port(), old::filter);
                Cable two = new Cable(servers.get(1).port(), old::filter);
                CacheClient<String> classic =
                        Patient.builder()
                                .nodes("127.0.0.1:" + one.port(), "127.0.0.1:" + two.port())
                                .mode(CacheClientBuilder.Mode.REPLICATED)
                                .build(Codecs.string())) {
            CacheException refused =
                    assertThrows(
                            CacheException.Configuration.class,
                            () -> classic.blocking().set("k", "v", TTL));
            assertTrue(refused.getMessage().contains("meta commands"), refused.getMessage());
        }
    }

    @Test
    void readsAreSpreadOverTheNodes() {
        Set<Integer> homes = ConcurrentHashMap.newKeySet();
        for (int i = 0; i < 100; i++) {
            homes.add(home("key-" + i).port());
        }
        assertEquals(3, homes.size());
    }

    @Test
    void whatTheHomeHasLostIsRepairedWithTheTimeItHasLeft() throws Exception {
        cache.set("k", "v", TTL);
        untilEverywhere("k", "v");
        Server home = home("k");
        home.ask("delete k\r\n", "DELETED");
        assertEquals("v", cache.get("k"));
        Await.until("repair", () -> holds(home, "k", "v"));
        String answer = home.ask("mg k t\r\nmn\r\n", "MN");
        Matcher left = Pattern.compile("HD t(\\d+)").matcher(answer);
        assertTrue(left.find(), answer);
        int left_s = Integer.parseInt(left.group(1));
        assertTrue(left_s > 900 && left_s <= 1000, answer);
    }

    @Test
    void aStepOfACounterIsTakenOnceAndAllNodesHaveTheSum() throws Exception {
        List<CompletableFuture<Long>> steps = new ArrayList<>();
        for (int i = 0; i < 500; i++) {
            steps.add(client.counters().addOrIncrement("n", 1, TTL).toCompletableFuture());
        }
        for (CompletableFuture<Long> step : steps) {
            step.join();
        }
        assertEquals(501, cache.addOrIncrement("n", 1, TTL));
        untilEverywhere("n", "501");
    }

    @Test
    void callsThatWaitEndWhenTheClientIsClosed() throws Exception {
        int victim = home("k").port();
        List<String> keys = new ArrayList<>();
        for (int i = 0; keys.size() < 50; i++) {
            if (home("k" + i).port() == victim) {
                keys.add("k" + i);
            }
        }
        home("k").kill();
        Await.until("another home", () -> home("k").port() != victim);
        // Their home has just changed, so these wait for the pause.
        List<CompletableFuture<?>> waiting = new ArrayList<>();
        keys.forEach(key -> waiting.add(client.set(key, "v", TTL).toCompletableFuture()));
        client.close();
        Await.until("all have ended", () -> waiting.stream().allMatch(CompletableFuture::isDone));
    }

    @Test
    void nothingIsLostWhenANodeDiesAndReturnsUnderLoad() throws Exception {
        Set<String> stored = ConcurrentHashMap.newKeySet();
        AtomicInteger failures = new AtomicInteger();
        AtomicInteger missing = new AtomicInteger();
        AtomicBoolean stop = new AtomicBoolean();
        List<Thread> load = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            String prefix = "t" + t + "-";
            load.add(new Thread(() -> load(prefix, stop, stored, failures, missing)));
        }
        load.forEach(Thread::start);
        Await.until("load", () -> stored.size() > 500);
        Server victim = servers.get(0);
        victim.kill();
        int before = stored.size();
        Await.until("load without a node", () -> stored.size() > before + 2000);
        servers.set(0, Server.memcached(victim.port()));
        Await.until("the node is trusted again", cluster()::isWhole);
        int filled = stored.size();
        Await.until("load with the node", () -> stored.size() > filled + 500);
        stop.set(true);
        for (Thread thread : load) {
            thread.join();
        }
        assertEquals(0, failures.get(), "failed requests");
        assertEquals(0, missing.get(), "missing while under load");
        assertAllOnTheReturnedNode(stored);
    }

    private void load(
            String prefix,
            AtomicBoolean stop,
            Set<String> stored,
            AtomicInteger failures,
            AtomicInteger missing) {
        for (int i = 0; !stop.get(); i++) {
            String key = prefix + i;
            try {
                cache.set(key, key, TTL);
                stored.add(key);
                String earlier = prefix + i / 2;
                if (!earlier.equals(cache.get(earlier))) {
                    missing.incrementAndGet();
                }
            } catch (CacheException e) {
                failures.incrementAndGet();
            }
        }
    }

    private void assertAllOnTheReturnedNode(Set<String> stored) throws Exception {
        String last = stored.iterator().next();
        cache.set(last, last, TTL);
        untilEverywhere(last, last);
        servers.get(1).kill();
        servers.get(2).kill();
        Await.until(
                "two are down",
                () -> cluster().endpoints().stream().filter(e -> e.isDown()).count() == 2);
        int gone = 0;
        for (String key : stored) {
            if (!key.equals(cache.get(key))) {
                gone++;
            }
        }
        assertEquals(0, gone, "of " + stored.size());
    }

    @Test
    @Tag(SILENCE)
    void whatWasRemovedWhileANodeWasAwayStaysRemoved() throws Exception {
        for (int i = 0; i < 200; i++) {
            cache.set("k" + i, "v", TTL);
        }
        untilEverywhere("k199", "v");
        Server victim = servers.get(1);
        victim.signal("STOP");
        try {
            for (int i = 0; i < 200; i++) {
                try {
                    cache.delete("k" + i);
                } catch (CacheException e) {
                    cache.delete("k" + i);
                }
            }
        } finally {
            victim.signal("CONT");
        }
        Await.until("the node is trusted again", cluster()::isWhole);
        for (int i = 0; i < 200; i++) {
            assertNull(cache.get("k" + i));
        }
    }

    @Test
    @Tag(SILENCE)
    void aSilentNodeDoesNotStopTheOthers() throws Exception {
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            keys.add("k" + i);
            cache.set("k" + i, "v", TTL);
        }
        untilEverywhere("k59", "v");
        servers.get(2).signal("STOP");
        try {
            int silent = servers.get(2).port();
            for (String key : keys) {
                assertEquals("v", cache.get(key), () -> key + " at " + silent);
            }
            for (String key : keys) {
                cache.set(key, "w", TTL);
            }
        } finally {
            servers.get(2).signal("CONT");
        }
        Await.until("the node is trusted again", cluster()::isWhole);
        for (String key : keys) {
            assertEquals("w", cache.get(key));
        }
    }

    @Test
    @Tag(SILENCE)
    void allNodesDownIsAFailureAtOnce() throws Exception {
        cache.set("k", "v", TTL);
        for (Server server : servers) {
            server.kill();
        }
        Await.until(
                "all are known to be down",
                () -> cluster().endpoints().stream().allMatch(endpoint -> endpoint.isDown()));
        assertFalse(client.get("k").toCompletableFuture().handle((v, e) -> e == null).join());
    }
}
