package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A client in memory: its clock, and shared items. {@link ContractTest} tests the rest. */
class InMemoryTest {
    private static final Duration TTL = Duration.ofSeconds(60);

    private final AtomicLong clock = new AtomicLong();
    private final CacheClientBuilder builder = CacheClient.builder().inMemory().ticker(clock::get);
    private final CacheClient<String> client = builder.build(Codecs.string());
    private final BlockingCacheClient<String> cache = client.blocking();

    @AfterEach
    void shut() {
        client.close();
    }

    private void pass(Duration time) {
        clock.addAndGet(time.toNanos());
    }

    @Test
    void anItemEndsWhenItsTimeHasPassedByTheClock() {
        cache.set("k", "v", TTL);
        cache.set("always", "v", Ttl.NEVER);
        pass(TTL.minusNanos(1));
        assertEquals("v", cache.get("k"));
        pass(Duration.ofNanos(1));
        assertNull(cache.get("k"));
        assertTrue(cache.add("k", "again", TTL));
        pass(TTL);
        assertEquals(Set.of("always"), cache.keys(Listing.FAST));
    }

    @Test
    void touchMovesTheEndAndAppendingDoesNot() {
        cache.set("k", "v", TTL);
        pass(TTL.dividedBy(2));
        assertTrue(cache.touch("k", TTL));
        assertTrue(cache.append("k", "w"));
        pass(TTL.dividedBy(2));
        assertEquals("vw", cache.get("k"));
        pass(TTL.dividedBy(2));
        assertNull(cache.get("k"));
    }

    @Test
    void aRateLimitBeginsAgainWhenItsTimeHasPassed() {
        assertEquals(1, cache.addOrIncrement("rate", 1, TTL));
        assertEquals(2, cache.addOrIncrement("rate", 1, TTL));
        pass(TTL);
        assertEquals(1, cache.addOrIncrement("rate", 1, TTL));
    }

    @Test
    void anInvalidatedItemEndsToo() {
        cache.set("k", "old", Ttl.NEVER);
        assertTrue(cache.invalidate("k", TTL));
        assertEquals("old", cache.get("k"));
        pass(TTL);
        assertNull(cache.get("k"));
    }

    @Test
    void whatIsAboutToEndIsLoadedByOneAndServedToAllOthers() {
        LoadOptions options = LoadOptions.ttl(TTL).early(Duration.ofSeconds(10));
        assertEquals("old", cache.getOrLoad("k", options, () -> "old"));
        pass(TTL.minusSeconds(5));
        CompletableFuture<String> loaded = new CompletableFuture<>();
        AtomicInteger loads = new AtomicInteger();
        CompletableFuture<String> first =
                client.getOrLoad("k", options, () -> loaded).toCompletableFuture();
        assertEquals("old", cache.getOrLoad("k", options, () -> "load " + loads.incrementAndGet()));
        loaded.complete("new");
        assertEquals("new", first.join());
        assertEquals("new", cache.getOrLoad("k", options, () -> "none"));
        assertEquals(0, loads.get());
    }

    @Test
    void aLocalCopyIsAsOldAsTheCallAllows() {
        CacheClientBuilder near =
                CacheClient.builder()
                        .inMemory()
                        .ticker(clock::get)
                        .localCache(LocalCacheOptions.tracked(1 << 20, 6379));
        try (CacheClient<String> mine = near.build(Codecs.string());
                CacheClient<String> other = near.build(Codecs.string())) {
            BlockingCacheClient<String> reader = mine.blocking();
            reader.set("k", "old", Ttl.NEVER);
            assertEquals("old", reader.get("k", TTL));
            other.blocking().set("k", "new", Ttl.NEVER);
            assertEquals("old", reader.get("k", TTL));
            pass(TTL.plusNanos(1));
            assertEquals("new", reader.get("k", TTL));
        }
    }

    @Test
    void clientsOfOneBuilderShareItemsAndOthersDoNot() {
        cache.set("k", "v", TTL);
        try (CacheClient<String> same = builder.build(Codecs.string());
                CacheClient<String> another =
                        CacheClient.builder().inMemory().build(Codecs.string())) {
            assertEquals("v", same.blocking().get("k"));
            assertNull(another.blocking().get("k"));
            assertFalse(another.blocking().delete("k"));
        }
    }

    @Test
    void aCounterThatIsNoNumberAndAClosedClientAreErrors() {
        cache.set("k", "text", TTL);
        assertThrows(CacheException.Refused.class, () -> cache.increment("k", 1));
        client.close();
        assertThrows(CacheException.Closed.class, () -> cache.get("k"));
        CompletionException failure =
                assertThrows(
                        CompletionException.class,
                        () -> client.get("k").toCompletableFuture().join());
        assertTrue(failure.getCause() instanceof CacheException.Closed);
    }

    @Test
    void itSpeaksMemcachedsProtocolOnly() {
        CacheClientBuilder redis =
                CacheClient.builder().inMemory().protocol(CacheClientBuilder.Protocol.REDIS);
        assertThrows(CacheException.Configuration.class, () -> redis.build(Codecs.string()));
    }
}
