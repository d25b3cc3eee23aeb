package cellar.client.jcache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.Closeable;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import javax.cache.Cache;
import javax.cache.configuration.MutableConfiguration;
import javax.cache.integration.CacheLoader;
import javax.cache.integration.CacheLoaderException;
import javax.cache.integration.CacheWriter;
import javax.cache.integration.CacheWriterException;
import javax.cache.integration.CompletionListenerFuture;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Read-through and write-through. */
class ThroughTest extends ManagerTest {
    /** A store that counts calls, and fails for some keys. */
    private static final class Store
            implements CacheLoader<String, String>, CacheWriter<String, String>, Closeable {
        final Map<String, String> rows = new ConcurrentHashMap<>();
        final AtomicInteger loads = new AtomicInteger();
        final AtomicInteger writes = new AtomicInteger();
        boolean closed;

        private static void check(Object key) {
            if (key.equals("broken")) {
                throw new IllegalStateException("the store is broken");
            }
        }

        @Override
        public String load(String key) {
            loads.incrementAndGet();
            check(key);
            return rows.get(key);
        }

        @Override
        public Map<String, String> loadAll(Iterable<? extends String> keys) {
            Map<String, String> found = new HashMap<>();
            keys.forEach(key -> found.put(key, load(key)));
            return found;
        }

        @Override
        public void write(Cache.Entry<? extends String, ? extends String> entry) {
            writes.incrementAndGet();
            check(entry.getKey());
            rows.put(entry.getKey(), entry.getValue());
        }

        @Override
        public void writeAll(Collection<Cache.Entry<? extends String, ? extends String>> entries) {
            for (var left = entries.iterator(); left.hasNext(); left.remove()) {
                write(left.next());
            }
        }

        @Override
        public void delete(Object key) {
            writes.incrementAndGet();
            check(key);
            rows.remove(key);
        }

        @Override
        public void deleteAll(Collection<?> keys) {
            for (var left = keys.iterator(); left.hasNext(); left.remove()) {
                delete(left.next());
            }
        }

        @Override
        public void close() {
            closed = true;
        }
    }

    private final Store store = new Store();
    private Cache<String, String> cache;

    @BeforeEach
    void open() {
        MutableConfiguration<String, String> configuration =
                texts().setReadThrough(true)
                        .setWriteThrough(true)
                        .setCacheLoaderFactory(() -> store)
                        .setCacheWriterFactory(() -> store);
        cache = manager.createCache("a", configuration);
    }

    @Test
    void aMissIsLoadedOnceAndKept() {
        store.rows.put("k", "v");
        assertFalse(cache.containsKey("k"));
        assertEquals("v", cache.get("k"));
        assertEquals("v", cache.get("k"));
        assertEquals(1, store.loads.get());
        assertNull(cache.get("none"));
        assertTrue(cache.putIfAbsent("none", "n"));
        assertEquals("n", cache.getAndRemove("none"));
        store.rows.put("l", "w");
        assertEquals(Map.of("k", "v", "l", "w"), cache.getAll(Set.of("k", "l", "none")));
        assertTrue(cache.containsKey("l"));
    }

    @Test
    void whoMissesTogetherLoadsOnce() throws Exception {
        store.rows.put("k", "v");
        List<CompletableFuture<String>> answers = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            answers.add(
                    CompletableFuture.supplyAsync(
                            () -> cache.get("k"), task -> new Thread(task).start()));
        }
        for (CompletableFuture<String> answer : answers) {
            assertEquals("v", answer.get());
        }
        assertEquals(1, store.loads.get());
    }

    @Test
    void aLoaderThatFailsIsTold() {
        assertThrows(CacheLoaderException.class, () -> cache.get("broken"));
        assertThrows(CacheLoaderException.class, () -> cache.getAll(Set.of("broken")));
        CompletionListenerFuture done = new CompletionListenerFuture();
        cache.loadAll(Set.of("broken"), true, done);
        assertThrows(java.util.concurrent.ExecutionException.class, done::get);
    }

    @Test
    void allAreLoadedThatAreNotThereOrEachAnew() throws Exception {
        store.rows.putAll(Map.of("x", "1", "y", "2"));
        cache.get("x");
        store.rows.putAll(Map.of("x", "3", "y", "4"));
        CompletionListenerFuture done = new CompletionListenerFuture();
        cache.loadAll(Set.of("x", "y"), false, done);
        done.get();
        assertEquals(Map.of("x", "1", "y", "4"), cache.getAll(Set.of("x", "y")));
        cache.loadAll(Set.of("x", "y"), true, null);
        assertEquals("3", cache.get("x"));
    }

    @Test
    void everyChangeIsWritten() {
        cache.put("a", "1");
        cache.putAll(Map.of("b", "2", "c", "3"));
        assertEquals(Map.of("a", "1", "b", "2", "c", "3"), store.rows);
        assertTrue(cache.putIfAbsent("d", "4"));
        assertFalse(cache.putIfAbsent("d", "5"));
        assertEquals("1", cache.getAndPut("a", "6"));
        assertTrue(cache.replace("b", "2", "7"));
        assertEquals(Map.of("a", "6", "b", "7", "c", "3", "d", "4"), store.rows);
        cache.remove("a");
        assertTrue(cache.remove("b", "7"));
        cache.removeAll(Set.of("c"));
        assertEquals(Map.of("d", "4"), store.rows);
        cache.removeAll();
        assertEquals(Map.of(), store.rows);
        int writes = store.writes.get();
        cache.clear();
        assertEquals(writes, store.writes.get());
    }

    @Test
    void whatIsNotWrittenIsNotCached() {
        assertThrows(CacheWriterException.class, () -> cache.put("broken", "1"));
        assertThrows(CacheWriterException.class, () -> cache.getAndPut("broken", "1"));
        assertThrows(CacheWriterException.class, () -> cache.putAll(Map.of("broken", "1")));
        assertFalse(cache.containsKey("broken"));
        assertThrows(CacheWriterException.class, () -> cache.remove("broken"));
    }

    @Test
    void aProcessorSeesWhatIsInTheStore() {
        store.rows.put("k", "1");
        assertEquals("1", cache.invoke("k", (entry, more) -> entry.getValue()));
        assertTrue(cache.containsKey("k"));
        assertEquals(0, store.writes.get());
        cache.invoke(
                "k",
                (entry, more) -> {
                    entry.setValue(entry.getValue() + "2");
                    return null;
                });
        assertEquals("12", store.rows.get("k"));
        assertEquals("12", cache.get("k"));
    }

    @Test
    void theStoreIsClosedWithTheCache() {
        cache.close();
        assertTrue(store.closed);
    }
}
