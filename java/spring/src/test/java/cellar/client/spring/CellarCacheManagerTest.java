package cellar.client.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.CacheClient;
import cellar.client.Codecs;
import cellar.client.LocalCacheOptions;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
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

/** Spring's cache abstraction over a server. */
class CellarCacheManagerTest {
    private static final Duration TTL = Duration.ofMinutes(1);

    private static Server server;
    private static CacheClient<Object> client;
    private static CellarCacheManager manager;

    @BeforeAll
    static void open() throws Exception {
        server = Server.start(Server.Kind.CELLAR);
        client =
                CacheClient.builder()
                        .timeout(Duration.ofSeconds(20))
                        .connectTimeout(Duration.ofSeconds(20))
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
        one.put(7, null);
        assertNull(one.get(7));
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
        assertEquals("v", manager.getCache("other").get(1, String.class));
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
        assertEquals("async", cache.retrieve("a").join());
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
