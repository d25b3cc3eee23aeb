package cellar.client.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.CacheClient;
import cellar.client.CacheException;
import cellar.client.CacheMetrics;
import cellar.client.Codecs;
import cellar.client.LocalCacheOptions;
import cellar.client.testing.Await;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.cache.Cache;
import org.springframework.cache.CacheManager;
import org.springframework.cache.annotation.CacheEvict;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Spring's cache abstraction with a server. */
class CellarCacheManagerTest {
    private static final Duration TTL = Duration.ofMinutes(1);

    private static Server server;
    private static CacheClient<Object> client;
    private static CellarCacheManager manager;

    @BeforeAll
    static void open() throws Exception {
        server = Server.start(Server.Kind.CELLAR);
        client =
                Patient.builder()
                        .nodes(List.of(server.node()))
                        .localCache(LocalCacheOptions.tracked(1 << 20, server.respPort()))
                        .build(Codecs.spymemcached());
        manager = CellarCacheManager.of(client, TTL);
    }

    @AfterAll
    static void shut() {
        client.close();
        server.close();
    }

    @Test
    void valuesAreKeptUnderTheCachesName() {
        Cache one = manager.getCache("one");
        Cache two = manager.getCache("two");
        one.put(7, "seven");
        assertEquals("seven", one.get(7).get());
        assertEquals("seven", one.get(7, String.class));
        assertNull(two.get(7));
        assertThrows(IllegalStateException.class, () -> one.get(7, Integer.class));
        assertEquals("seven", one.putIfAbsent(7, "other").get());
        assertTrue(one.evictIfPresent(7));
        assertFalse(one.evictIfPresent(7));
        assertNull(one.putIfAbsent(7, "other"));
    }

    @Test
    void nullIsAValueUnlessItIsNotWanted() throws Exception {
        Cache cache = manager.getCache("nulls");
        assertNull(cache.get("k"));
        cache.put("k", null);
        assertNull(cache.get("k").get());
        assertNull(cache.get("k", String.class));
        AtomicInteger calls = new AtomicInteger();
        assertNull(cache.get("l", () -> calls.incrementAndGet() > 0 ? null : "v"));
        assertNull(cache.get("l", () -> calls.incrementAndGet() > 0 ? null : "v"));
        assertEquals(1, calls.get());
        assertNull(cache.putIfAbsent("l", "v").get());
        assertNull(cache.retrieve("m", () -> CompletableFuture.completedFuture(null)).join());
        assertNull(((Cache.ValueWrapper) cache.retrieve("m").join()).get());
        Cache without = manager.withoutNulls().getCache("no nulls");
        without.put("k", "v");
        without.put("k", null);
        assertNull(without.get("k"));
        assertNull(without.get("k", () -> calls.incrementAndGet() > 0 ? null : "v"));
        assertNull(without.get("k", () -> calls.incrementAndGet() > 0 ? null : "v"));
        assertEquals(3, calls.get());
    }

    /** A value of a class that only its cache declares. */
    public record Book(String title) {}

    @Test
    void cachesHaveTypesOfTheirOwn() {
        CellarCacheManager typed =
                manager.types(Map.of("book", Book.class, "number", Integer.class)).localTtl(TTL);
        Cache books = typed.getCache("book");
        books.put(1, new Book("Emma"));
        assertEquals(new Book("Emma"), books.get(1, Book.class));
        assertEquals(new Book("Emma"), books.get(1, Book.class));
        typed.getCache("number").put(1, 7);
        assertEquals(7, typed.getCache("number").get(1, Integer.class));
        assertEquals(Set.of("book", "number"), Set.copyOf(typed.getCacheNames()));
        CacheException refused =
                assertThrows(
                        CacheException.Coding.class,
                        () -> manager.getCache("untyped").put(1, new Book("Emma")));
        assertTrue(refused.getMessage().contains("Book"), refused.getMessage());
    }

    @Test
    void anyKeyCanBeUsed() {
        Cache cache = manager.getCache("keys");
        for (Object key : List.of("with space", "x".repeat(1000), List.of(1, 2), "ü")) {
            cache.put(key, "v-" + key.hashCode());
        }
        for (Object key : List.of("with space", "x".repeat(1000), List.of(1, 2), "ü")) {
            assertEquals("v-" + key.hashCode(), cache.get(key, String.class));
        }
    }

    @Test
    void clearLeavesOtherCachesAlone() {
        manager.getCache("full").put(1, "v");
        manager.getCache("other").put(1, "v");
        manager.getCache("full").clear();
        assertNull(manager.getCache("full").get(1));
        manager.getCache("full").put(1, "w");
        assertEquals("w", manager.getCache("full").get(1, String.class));
        assertEquals("v", manager.getCache("other").get(1, String.class));
    }

    @Test
    void whatAnotherProcessHasClearedIsGoneSoon() throws Exception {
        for (CellarCacheManager one :
                List.of(
                        CellarCacheManager.of(client, TTL).generationTtl(Duration.ofMillis(20)),
                        CellarCacheManager.of(client, TTL).generationTtl(TTL).localTtl(TTL))) {
            Cache cache = one.getCache("cleared");
            cache.put("k", "v");
            assertEquals("v", cache.get("k", String.class));
            CellarCacheManager.of(client, TTL).getCache("cleared").clear();
            Await.until("the clearing", () -> cache.get("k") == null);
            assertNull(cache.retrieve("k").thenApply(found -> found).join());
        }
    }

    @Test
    void toClearACacheAsksForNoKeys() throws Exception {
        List<String> operations = new CopyOnWriteArrayList<>();
        CacheMetrics metrics =
                new CacheMetrics() {
                    @Override
                    public void request(String node, String name, Outcome end, long latency_ns) {
                        operations.add(name);
                    }
                };
        try (CacheClient<String> own =
                Patient.builder()
                        .nodes(List.of(server.node()))
                        .metrics(metrics)
                        .build(Codecs.string())) {
            Cache cache = CellarCacheManager.of(own, TTL).getCache("listed");
            cache.put("k", "v");
            operations.clear();
            cache.clear();
            assertEquals(List.of("set"), operations);
            assertNull(cache.get("k"));
        }
    }

    @Test
    void aGenerationThatWasLostDoesNotComeAgain() {
        Cache cache = CellarCacheManager.of(client, TTL).getCache("lost");
        cache.put("k", "v");
        client.blocking().delete("lost::");
        assertNull(CellarCacheManager.of(client, TTL).getCache("lost").get("k"));
    }

    @Test
    void aLoaderIsCalledOnceAndItsFailureIsTold() {
        Cache cache = manager.getCache("loaded");
        AtomicInteger calls = new AtomicInteger();
        assertEquals("1", cache.get("k", () -> "" + calls.incrementAndGet()));
        assertEquals("1", cache.get("k", () -> "" + calls.incrementAndGet()));
        assertThrows(
                Cache.ValueRetrievalException.class,
                () ->
                        cache.get(
                                "failing",
                                () -> {
                                    throw new java.io.IOException("no");
                                }));
        assertEquals(
                "async",
                cache.retrieve("a", () -> CompletableFuture.completedFuture("async")).join());
        assertEquals("async", ((Cache.ValueWrapper) cache.retrieve("a").join()).get());
    }

    /** An application with annotated methods. */
    @Configuration
    @EnableCaching
    static class Application {
        @Bean
        CacheManager cacheManager() {
            return manager.localTtl(TTL);
        }

        @Bean
        Books books() {
            return new Books();
        }
    }

    /** Has annotated methods. */
    static class Books {
        final AtomicInteger calls = new AtomicInteger();

        @Cacheable(cacheNames = "books", sync = true)
        public String title(int isbn) {
            return "book " + isbn + " " + calls.incrementAndGet();
        }

        @CacheEvict(cacheNames = "books")
        public void forget(int isbn) {
            calls.addAndGet(10);
        }
    }

    @Test
    void annotatedMethodsAreCached() {
        try (AnnotationConfigApplicationContext context =
                new AnnotationConfigApplicationContext(Application.class)) {
            Books books = context.getBean(Books.class);
            assertEquals("book 5 1", books.title(5));
            assertEquals("book 5 1", books.title(5));
            books.forget(5);
            assertTrue(books.title(5).endsWith("12") || books.title(5).endsWith("2"));
            assertFalse(books.title(5).equals("book 5 1"));
        }
    }
}
