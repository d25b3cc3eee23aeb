package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cellar.client.testing.Await;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * The rows of the table of edge cases in docs/java.md that {@link ContractTest} does not test:
 * changes during a load, and a caller that cancels.
 */
class GoodGuessesTest {
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Duration HOUR = Duration.ofHours(1);

    /** Space for some hundred short copies. */
    private static final long LOCAL_BYTES = 11_000;

    private final AtomicLong clock = new AtomicLong();
    private final AtomicInteger hits = new AtomicInteger();
    private final CacheClient<String> client =
            CacheClient.builder()
                    .inMemory()
                    .ticker(clock::get)
                    .metrics(
                            new CacheMetrics() {
                                @Override
                                public void local(boolean hit) {
                                    hits.addAndGet(hit ? 1 : 0);
                                }
                            })
                    .localCache(LocalCacheOptions.confirmed(LOCAL_BYTES).localTtl(HOUR))
                    .build(Codecs.string());
    private final BlockingCacheClient<String> cache = client.blocking();

    @AfterEach
    void shut() {
        client.close();
    }

    private void pass(Duration time) {
        clock.addAndGet(time.toNanos());
    }

    @Test
    void anUntimedWriteOverATimedValueHasNoDeadline() {
        cache.set("k", "timed", SECOND);
        assertEquals("timed", cache.get("k"));
        cache.set("k", "untimed", Ttl.NEVER);
        assertEquals("untimed", cache.get("k"));
        pass(SECOND.multipliedBy(10));
        assertEquals("untimed", cache.get("k"));
    }

    @Test
    void anOverwriteHeavierThanTheBoundIsReadAndTheOtherCopiesStay() throws Exception {
        List<String> others = List.of("a", "b", "c");
        others.forEach(key -> cache.set(key, "v", HOUR));
        cache.set("k", "light", HOUR);
        others.forEach(cache::get);
        cache.get("k");
        String heavy = "y".repeat(2 * (int) LOCAL_BYTES);
        cache.set("k", heavy, HOUR);
        assertEquals(heavy, cache.get("k"));
        assertEquals(heavy, cache.get("k"));
        hits.set(0);
        others.forEach(key -> assertEquals("v", cache.get(key)));
        assertEquals(others.size(), hits.get());
    }

    @Test
    void aFullStoreWhoseEntriesHaveEndedServesNoneOfThem() {
        for (int i = 0; i < 100; i++) {
            cache.set("k" + i, "old", SECOND);
        }
        for (int i = 0; i < 1_000; i++) {
            assertEquals("old", cache.get("k" + i % 100));
        }
        pass(SECOND);
        for (int i = 0; i < 100; i++) {
            assertNull(cache.get("k" + i));
            cache.set("new" + i, "new", HOUR);
            assertEquals("new", cache.get("new" + i));
        }
    }

    @Test
    void moreLoadsThanPlacesAllEndWithTheirValues() {
        int count = 2_000;
        List<CompletableFuture<String>> loads = new ArrayList<>();
        List<CompletableFuture<String>> loaded = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            CompletableFuture<String> value = new CompletableFuture<>();
            loaded.add(value);
            loads.add(
                    client.getOrLoad("k" + i, LoadOptions.ttl(HOUR), () -> value)
                            .toCompletableFuture());
        }
        for (int i = 0; i < count; i++) {
            loaded.get(i).complete("v" + i);
            assertEquals("v" + i, loads.get(i).join());
        }
    }

    @Test
    void anInterruptedCallerDoesNotWaitForTheLoadOfAnother() throws Exception {
        LoadOptions options = LoadOptions.ttl(HOUR).patience(HOUR);
        CompletableFuture<String> value = new CompletableFuture<>();
        CompletableFuture<String> load =
                client.getOrLoad("k", options, () -> value).toCompletableFuture();
        AtomicReference<CacheException> failure = new AtomicReference<>();
        Thread waiting =
                new Thread(
                        () -> {
                            try {
                                cache.getOrLoad("k", options, () -> "its own");
                            } catch (CacheException e) {
                                failure.set(e);
                            }
                        });
        waiting.start();
        Await.until(
                "it waits",
                () ->
                        List.of(Thread.State.WAITING, Thread.State.TIMED_WAITING)
                                .contains(waiting.getState()));
        waiting.interrupt();
        Await.until("it has returned", () -> !waiting.isAlive());
        assertInstanceOf(CacheException.Loading.class, failure.get());
        value.complete("loaded");
        assertEquals("loaded", load.join());
    }

    @Test
    void whatIsStoredAfterAClearDoesNotEndAtAnOlderDeadline() {
        cache.set("k", "old", SECOND);
        cache.get("k");
        cache.flushAll();
        cache.set("k", "new", Ttl.NEVER);
        cache.get("k");
        pass(SECOND.multipliedBy(10));
        assertEquals("new", cache.get("k"));
    }

    @Test
    void aVeryShortLifeIsASecond() {
        assertThrows(IllegalArgumentException.class, () -> cache.set("k", "v", Duration.ZERO));
        for (Duration life : List.of(Duration.ofNanos(1), Duration.ofMillis(300))) {
            cache.set("k", "v", life);
            pass(SECOND.minusNanos(1));
            assertEquals("v", cache.get("k"));
            pass(Duration.ofNanos(1));
            assertNull(cache.get("k"));
        }
    }
}
