package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import cellar.client.testing.Await;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The local cache with real servers. */
@Tag("deep")
class LocalCacheTest {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration HOUR = Duration.ofHours(1);

    private final AtomicLong moved_ns = new AtomicLong();

    private CacheClient<String> client(Server server, LocalCacheOptions options) {
        return Patient.builder()
                .nodes(List.of(server.node()))
                .localCache(options)
                .ticker(() -> System.nanoTime() + moved_ns.get())
                .build(Codecs.string());
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void anOldCopyIsConfirmedOrReplaced(Server.Kind kind) throws Exception {
        try (Server server = Server.start(kind);
                CacheClient<String> client = client(server, LocalCacheOptions.confirmed(1 << 20));
                CacheClient<String> other = client(server, LocalCacheOptions.confirmed(1 << 20))) {
            BlockingCacheClient<String> cache = client.blocking();
            cache.set("k", "old", HOUR);
            String copy = cache.get("k", MINUTE);
            assertSame(copy, cache.get("k", MINUTE));
            moved_ns.addAndGet(MINUTE.toNanos() + 1);
            String confirmed = cache.get("k", MINUTE);
            assertEquals("old", confirmed);
            if (kind == Server.Kind.CELLAR) {
                assertSame(copy, confirmed, "an unchanged value came again");
            } else {
                assertNotSame(copy, confirmed);
            }
            other.blocking().set("k", "new", HOUR);
            assertEquals("old", cache.get("k", MINUTE));
            assertEquals("new", cache.get("k", Duration.ZERO));
            other.blocking().delete("k");
            assertNull(cache.get("k", Duration.ZERO));
        }
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void everyOwnChangeDropsTheCopy(Server.Kind kind) throws Exception {
        try (Server server = Server.start(kind);
                CacheClient<String> client = client(server, LocalCacheOptions.confirmed(1 << 20))) {
            BlockingCacheClient<String> cache = client.blocking();
            List<Runnable> changes =
                    List.of(
                            () -> cache.set("k", "1", HOUR),
                            () -> cache.delete("k"),
                            () -> cache.add("k", "2", HOUR),
                            () -> cache.replace("k", "3", HOUR),
                            () -> cache.append("k", "4"),
                            () -> cache.prepend("k", "5"),
                            () -> cache.increment("k", 1),
                            () -> cache.decrement("k", 2),
                            () -> cache.storeCounter("k", 9, HOUR),
                            () -> cache.addOrIncrement("k", 1, HOUR),
                            () -> cache.flushAll());
            for (Runnable change : changes) {
                cache.get("k", HOUR);
                change.run();
                assertEquals(cache.get("k"), cache.get("k", HOUR));
            }
        }
    }

    @Test
    void aCopyEndsWithItsItem() throws Exception {
        try (Server server = Server.start(Server.Kind.MEMCACHED);
                CacheClient<String> client = client(server, LocalCacheOptions.confirmed(1 << 20));
                CacheClient<String> other = client(server, LocalCacheOptions.confirmed(1 << 20))) {
            client.blocking().set("k", "v", Duration.ofSeconds(30));
            client.blocking().get("k", HOUR);
            other.blocking().set("k", "other", HOUR);
            assertEquals("v", client.blocking().get("k", HOUR));
            moved_ns.addAndGet(Duration.ofSeconds(31).toNanos());
            assertEquals("other", client.blocking().get("k", HOUR));
        }
    }

    @Test
    void cellarTellsOfChangesByAnyClient() throws Exception {
        try (Server server = Server.start(Server.Kind.CELLAR);
                CacheClient<String> client =
                        client(server, LocalCacheOptions.tracked(1 << 20, server.respPort()));
                CacheClient<String> other = client(server, LocalCacheOptions.confirmed(1 << 20))) {
            BlockingCacheClient<String> cache = client.blocking();
            other.blocking().set("k", "0", HOUR);
            Await.until("a copy", () -> cache.get("k", HOUR) == cache.get("k", HOUR));
            for (int i = 1; i < 50; i++) {
                String value = "" + i;
                other.blocking().set("k", value, HOUR);
                Await.until("change " + i, () -> value.equals(cache.get("k", HOUR)));
            }
            other.blocking().delete("k");
            Await.until("the removal", () -> cache.get("k", HOUR) == null);
            other.blocking().set("k", "again", HOUR);
            Await.until("the new item", () -> "again".equals(cache.get("k", HOUR)));
            other.blocking().flushAll();
            Await.until("the flush", () -> cache.get("k", HOUR) == null);
        }
    }

    @Test
    void memoryIsBounded() throws Exception {
        try (Server server = Server.start(Server.Kind.MEMCACHED);
                CacheClient<String> client = client(server, LocalCacheOptions.confirmed(100_000))) {
            BlockingCacheClient<String> cache = client.blocking();
            String value = "x".repeat(1000);
            for (int i = 0; i < 1000; i++) {
                cache.set("k" + i, value, HOUR);
                cache.get("k" + i, HOUR);
            }
            Await.until(
                    "eviction",
                    () -> ((cellar.client.internal.AsyncView<String>) client).localCopies() <= 100);
        }
    }
}
