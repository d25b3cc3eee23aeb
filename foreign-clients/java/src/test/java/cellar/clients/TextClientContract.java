package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What every Java client must be able to do with the server. */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
abstract class TextClientContract {
    static final InetSocketAddress SERVER =
            new InetSocketAddress("127.0.0.1", Integer.getInteger("cache.port", 11211));
    static final Duration LONG = Duration.ofHours(1);
    static final Duration BRIEF = Duration.ofSeconds(2);
    private static final int THREADS = 100;
    private static final int OPERATIONS = 100;

    private TextClient client;

    /** A connected client; the test closes it. */
    abstract TextClient connect() throws Exception;

    @BeforeEach
    void connectToAnEmptyCache() throws Exception {
        client = connect();
        client.flush();
    }

    @AfterEach
    void disconnect() throws Exception {
        client.close();
    }

    @Test
    void aStoredValueIsReadBack() throws Exception {
        assertTrue(client.set("key", "value", LONG));
        assertEquals(Optional.of("value"), client.get("key"));
        assertEquals(Optional.empty(), client.get("absent"));
    }

    @Test
    void objectsSurviveTheirSerializer() throws Exception {
        List<Object> values = List.of("\u00e9\u4e2d", 42, 7L, true, 2.5, List.of("a", 1));
        for (Object value : values) {
            client.set("object", value, LONG);
            assertEquals(Optional.of(value), client.get("object"));
        }
    }

    @Test
    void addAndReplaceDependOnPresence() throws Exception {
        assertFalse(client.replace("key", "1"));
        assertTrue(client.add("key", "1"));
        assertFalse(client.add("key", "2"));
        assertTrue(client.replace("key", "3"));
        assertEquals(Optional.of("3"), client.get("key"));
    }

    @Test
    void appendAndPrependExtendAText() throws Exception {
        assertFalse(client.append("key", "x"));
        client.set("key", "middle", LONG);
        assertTrue(client.append("key", "-end"));
        assertTrue(client.prepend("key", "start-"));
        assertEquals(Optional.of("start-middle-end"), client.get("key"));
    }

    @Test
    void aConditionalStoreNeedsTheVersionItSaw() throws Exception {
        client.set("key", "1", LONG);
        long version = client.version("key");
        assertTrue(client.setIfVersion("key", "2", version));
        assertFalse(client.setIfVersion("key", "3", version));
        assertNotEquals(version, client.version("key"));
        assertEquals(Optional.of("2"), client.get("key"));
    }

    @Test
    void aCounterCountsUpAndDownToZero() throws Exception {
        client.set("n", "10", LONG);
        assertEquals(15, client.increment("n", 5));
        assertEquals(9, client.decrement("n", 6));
        assertEquals(0, client.decrement("n", 100));
    }

    @Test
    void manyKeysTravelInOneRequest() throws Exception {
        Map<String, Object> expected = new HashMap<>();
        List<String> keys = new ArrayList<>(List.of("absent"));
        for (int i = 0; i < 500; i++) {
            expected.put("many-" + i, "value-" + i);
            keys.add("many-" + i);
            client.set("many-" + i, "value-" + i, LONG);
        }
        assertEquals(expected, client.getMany(keys));
    }

    @Test
    void anExpiredItemIsAMiss() throws Exception {
        // On a busy machine it may have ended before it is read.
        Await.until(
                "a hit",
                () ->
                        client.set("brief", "1", BRIEF)
                                && client.get("brief").equals(Optional.of("1")));
        Await.until("the end of the item", () -> client.get("brief").isEmpty());
    }

    @Test
    void touchMovesTheEnd() throws Exception {
        assertFalse(client.touch("absent", LONG));
        // On a busy machine it may have ended before it is touched.
        Await.until("a touch", () -> client.set("kept", "1", BRIEF) && client.touch("kept", LONG));
        client.set("brief", "1", LONG);
        assertTrue(client.touch("brief", BRIEF));
        Await.until("the end of the item", () -> client.get("brief").isEmpty());
        assertEquals(Optional.of("1"), client.get("kept"));
    }

    @Test
    void deleteTellsWhetherThereWasAnItem() throws Exception {
        client.set("key", "1", LONG);
        assertTrue(client.delete("key"));
        assertFalse(client.delete("key"));
        assertEquals(Optional.empty(), client.get("key"));
    }

    @ParameterizedTest
    @ValueSource(ints = {15_000, 16_384, 70_000, 300_000, 1_000_000})
    void largeValuesTravelUnchanged(int bytes) throws Exception {
        byte[] value = noise(bytes);
        assertTrue(client.set("large", value, LONG));
        assertArrayEquals(value, (byte[]) client.get("large").orElseThrow());
    }

    @Test
    void aValueOverTheLimitIsRefusedAndTheConnectionLivesOn() throws Exception {
        assertThrows(Exception.class, () -> {
            if (!client.set("huge", noise(4 << 20), LONG)) {
                throw new IllegalStateException("refused");
            }
        });
        assertTrue(client.set("key", "1", LONG));
        assertEquals(Optional.of("1"), client.get("key"));
    }

    @Test
    void aHundredThreadsReadTheirOwnWrites() throws Exception {
        inThreads(me -> {
            for (int i = 0; i < OPERATIONS; i++) {
                String key = "thread-" + me + "-" + i;
                assertTrue(client.set(key, key + "-value", LONG));
                assertEquals(Optional.of(key + "-value"), client.get(key));
            }
        });
    }

    @Test
    void aHundredThreadsCountTogether() throws Exception {
        client.set("shared", "0", LONG);
        inThreads(me -> {
            for (int i = 0; i < OPERATIONS; i++) {
                client.increment("shared", 1);
            }
        });
        assertEquals(THREADS * OPERATIONS, client.increment("shared", 0));
    }

    private interface Work {
        void run(int thread) throws Exception;
    }

    private static void inThreads(Work work) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        try {
            List<Callable<Void>> tasks = new ArrayList<>();
            for (int i = 0; i < THREADS; i++) {
                int me = i;
                tasks.add(() -> {
                    work.run(me);
                    return null;
                });
            }
            for (Future<Void> done : pool.invokeAll(tasks)) {
                done.get();
            }
        } finally {
            pool.shutdownNow();
        }
    }

    /** Bytes that no compression makes smaller, the same in every run. */
    static byte[] noise(int bytes) {
        SplittableRandom random = new SplittableRandom(bytes);
        byte[] value = new byte[bytes];
        random.nextBytes(value);
        return value;
    }
}
