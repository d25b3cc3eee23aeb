package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.CacheClientBuilder.Mode;
import cellar.client.CacheClientBuilder.Protocol;
import cellar.client.testing.Await;
import cellar.client.testing.ClusterNodes;
import cellar.client.testing.Patient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** A Cellar cluster whose slot map the client follows. */
@Tag("deep")
class SlotsTest {
    private static final Duration TTL = Duration.ofMinutes(5);
    private static final int KEYS = 100;
    private static final int ATTEMPTS_MAX = 3;

    private static ClusterNodes nodes;

    @BeforeAll
    static void start() throws Exception {
        nodes = new ClusterNodes(4, 3);
    }

    @AfterAll
    static void stop() throws Exception {
        nodes.close();
    }

    private static CacheClientBuilder builder() {
        return Patient.builder()
                .nodes(List.of(nodes.node(0)))
                .protocol(Protocol.REDIS)
                .mode(Mode.SLOTS);
    }

    private static List<String> keys(String group) {
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < KEYS; i++) {
            keys.add(group + i);
        }
        return keys;
    }

    @Test
    void requestsGoToTheNodeThatHasTheSlotFromTheFirstOneOn() {
        try (CacheClient<String> client = builder().build(Codecs.string())) {
            BlockingCacheClient<String> cache = client.blocking();
            List<String> keys = keys("some");
            for (String key : keys) {
                cache.set(key, key, TTL);
                assertEquals(key, cache.get(key));
                assertEquals(key, client.get(key).toCompletableFuture().join());
            }
            Map<String, String> found = cache.getMany(keys);
            assertEquals(KEYS, found.size());
            assertEquals(found, client.getMany(keys).toCompletableFuture().join());
            assertTrue(cache.delete("some1"));
            assertNull(cache.get("some1"));
            assertEquals("made", cache.getOrLoad("made", LoadOptions.ttl(TTL), () -> "made"));
            assertEquals(5, cache.addOrIncrement("count", 5, TTL));
        }
    }

    @Test
    void theMapIsFollowedAndWhatMovedIsNotReadFromMemory() throws Exception {
        LocalCacheOptions options = LocalCacheOptions.tracked(1 << 20, 1).localTtl(TTL);
        try (CacheClient<String> client = builder().localCache(options).build(Codecs.string());
                CacheClient<String> other = builder().build(Codecs.string())) {
            BlockingCacheClient<String> cache = client.blocking();
            BlockingCacheClient<String> writer = other.blocking();
            List<String> keys = keys("moving");
            for (boolean joins : new boolean[] {true, false}) {
                for (String key : keys) {
                    writer.set(key, "old", TTL);
                }
                for (String key : keys) {
                    Await.until(key + " is old", () -> "old".equals(cache.get(key)));
                }
                nodes.list(3, joins);
                for (String key : keys) {
                    writer.set(key, "new", TTL);
                }
                for (String key : keys) {
                    Await.until(key + " is new", () -> "new".equals(cache.get(key)));
                }
            }
            assertNotNull(cache.get(keys.get(0)));
        }
    }

    @Test
    void whatMovedIsDroppedAtOnceAndEverythingElseStays() throws Exception {
        LocalCacheOptions options = LocalCacheOptions.tracked(1 << 20, 1).localTtl(TTL);
        Reads reads = new Reads();
        try (CacheClient<String> client =
                        builder().localCache(options).metrics(reads).build(Codecs.string());
                CacheClient<String> other = builder().build(Codecs.string())) {
            BlockingCacheClient<String> cache = client.blocking();
            List<String> keys = keys("staying");
            for (String key : keys) {
                other.blocking().set(key, "value", TTL);
            }
            // Copies also end if no message arrives for two seconds, as on a busy machine.
            List<String> lost = keys;
            for (int attempt = 0; attempt < ATTEMPTS_MAX && !lost.isEmpty(); attempt++) {
                lost = new ArrayList<>();
                for (boolean joins : new boolean[] {true, false}) {
                    lost.addAll(lostThoughTheyStay(joins, keys, cache, reads));
                }
            }
            assertEquals(List.of(), lost);
        }
    }

    /** Lets the fourth node join or leave; returns keys that do not move but are dropped. */
    private static List<String> lostThoughTheyStay(
            boolean joins, List<String> keys, BlockingCacheClient<String> cache, Reads reads)
            throws Exception {
        for (String key : keys) {
            Await.until(key + " is in memory", () -> reads.isLocal(cache, key));
        }
        List<Integer> before = owners(keys);
        nodes.list(3, joins);
        List<Integer> after = owners(keys);
        List<String> moved = new ArrayList<>();
        for (int i = 0; i < KEYS; i++) {
            if (!before.get(i).equals(after.get(i))) {
                moved.add(keys.get(i));
            }
        }
        assertTrue(!moved.isEmpty() && moved.size() < KEYS / 2, moved::toString);
        for (String key : moved) {
            Await.until(key + " is dropped", () -> !reads.isLocal(cache, key));
        }
        List<String> lost = new ArrayList<>();
        for (String key : keys) {
            if (!moved.contains(key) && !reads.isLocal(cache, key)) {
                lost.add(key);
            }
        }
        return lost;
    }

    /** Returns the number of the node that owns each key. */
    private static List<Integer> owners(List<String> keys) throws Exception {
        List<Integer> owners = new ArrayList<>();
        for (String key : keys) {
            owners.add(nodes.owner(key));
        }
        return owners;
    }

    /** Counts hits of the local cache. */
    private static final class Reads implements CacheMetrics {
        private final AtomicLong local = new AtomicLong();

        @Override
        public void local(boolean hit) {
            if (hit) {
                local.incrementAndGet();
            }
        }

        boolean isLocal(BlockingCacheClient<String> cache, String key) {
            long before = local.get();
            cache.get(key);
            return local.get() > before;
        }
    }

    @Test
    void slotsAreForRedissProtocol() {
        CacheClientBuilder builder = builder().protocol(Protocol.MEMCACHED);
        assertThrows(CacheException.Configuration.class, () -> builder.build(Codecs.string()));
    }
}
