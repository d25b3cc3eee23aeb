package cellar.client.jcache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.cache.Cache;
import javax.cache.expiry.CreatedExpiryPolicy;
import javax.cache.expiry.Duration;
import javax.cache.processor.EntryProcessorException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** JCache's operations over a server. */
class CellarCachingProviderTest extends ManagerTest {
    private Cache<String, String> cache;

    @BeforeEach
    void open() {
        cache = manager.createCache("a", texts());
    }

    @Test
    void theProviderIsFoundAndKeepsItsCaches() {
        assertTrue(provider instanceof CellarCachingProvider);
        assertSame(cache, manager.getCache("a", String.class, String.class));
        assertThrows(
                ClassCastException.class, () -> manager.getCache("a", String.class, Long.class));
        assertThrows(javax.cache.CacheException.class, () -> manager.createCache("a", texts()));
        assertThrows(javax.cache.CacheException.class, () -> manager.createCache("b", texts()));
        assertThrows(
                IllegalArgumentException.class,
                () -> manager.createCache("a", texts().setReadThrough(true)));
        assertThrows(
                UnsupportedOperationException.class,
                () -> manager.createCache("a", texts().setStoreByValue(false)));
        manager.destroyCache("a");
        assertTrue(cache.isClosed());
        assertThrows(IllegalStateException.class, () -> cache.get("k"));
        assertNull(manager.getCache("a"));
    }

    @Test
    void valuesArePutReadReplacedAndRemoved() {
        assertNull(cache.getAndPut("k", "1"));
        assertEquals("1", cache.getAndPut("k", "2"));
        assertFalse(cache.putIfAbsent("k", "3"));
        assertTrue(cache.putIfAbsent("other", "3"));
        assertTrue(cache.replace("k", "2", "4"));
        assertFalse(cache.replace("k", "2", "5"));
        assertEquals("4", cache.getAndReplace("k", "6"));
        assertNull(cache.getAndReplace("none", "6"));
        assertFalse(cache.replace("none", "6"));
        assertFalse(cache.remove("k", "5"));
        assertTrue(cache.remove("k", "6"));
        assertNull(cache.get("k"));
        assertEquals("3", cache.getAndRemove("other"));
        assertNull(cache.getAndRemove("other"));
        cache.putAll(Map.of("x", "1", "y", "2"));
        assertEquals(Map.of("x", "1", "y", "2"), cache.getAll(Set.of("x", "y", "z")));
        assertTrue(cache.containsKey("x"));
        cache.removeAll(Set.of("x"));
        assertFalse(cache.containsKey("x"));
        cache.clear();
        assertFalse(cache.containsKey("y"));
    }

    @Test
    void aProcessorsChangeIsOneStep() throws Exception {
        cache.put("n", "0");
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            threads.add(
                    new Thread(
                            () -> {
                                for (int i = 0; i < 100; i++) {
                                    cache.invoke("n", (entry, more) -> step(entry));
                                }
                            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals("400", cache.get("n"));
        assertThrows(
                EntryProcessorException.class,
                () ->
                        cache.invoke(
                                "n",
                                (entry, more) -> {
                                    throw new IllegalStateException("no");
                                }));
        assertEquals(
                "400",
                cache.invokeAll(Set.of("n"), (entry, more) -> entry.getValue()).get("n").get());
        cache.invoke(
                "n",
                (entry, more) -> {
                    entry.remove();
                    return null;
                });
        assertNull(cache.get("n"));
    }

    private static Object step(javax.cache.processor.MutableEntry<String, String> entry) {
        entry.setValue("" + (Integer.parseInt(entry.getValue()) + 1));
        return "";
    }

    @Test
    void itemsExpireAsThePolicySays() {
        cache.close();
        Cache<String, String> none =
                manager.createCache(
                        "a",
                        texts().setExpiryPolicyFactory(
                                        CreatedExpiryPolicy.factoryOf(Duration.ZERO)));
        none.put("k", "v");
        assertNull(none.get("k"));
    }

    @Test
    void allEntriesAreListed() {
        for (int i = 0; i < 50; i++) {
            cache.put("k" + i, "v" + i);
        }
        Set<String> keys = new HashSet<>();
        for (Cache.Entry<String, String> entry : cache) {
            assertEquals(entry.getKey().substring(1), entry.getValue().substring(1));
            keys.add(entry.getKey());
        }
        assertEquals(50, keys.size());
        var entries = cache.iterator();
        String first = entries.next().getKey();
        entries.remove();
        assertFalse(cache.containsKey(first));
    }
}
