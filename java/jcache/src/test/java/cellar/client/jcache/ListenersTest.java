package cellar.client.jcache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Await;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import javax.cache.Cache;
import javax.cache.configuration.FactoryBuilder;
import javax.cache.configuration.MutableCacheEntryListenerConfiguration;
import javax.cache.configuration.MutableConfiguration;
import javax.cache.event.CacheEntryCreatedListener;
import javax.cache.event.CacheEntryEvent;
import javax.cache.event.CacheEntryEventFilter;
import javax.cache.event.CacheEntryListenerException;
import javax.cache.event.CacheEntryRemovedListener;
import javax.cache.event.CacheEntryUpdatedListener;
import javax.cache.integration.CacheLoader;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.junit.jupiter.api.Test;

/** The events of listeners, and statistics. */
class ListenersTest extends ManagerTest {
    private final List<String> events = new CopyOnWriteArrayList<>();

    /** Records events; throws for the value "bad". */
    private final class Told
            implements CacheEntryCreatedListener<String, String>,
                    CacheEntryUpdatedListener<String, String>,
                    CacheEntryRemovedListener<String, String>,
                    java.io.Serializable {
        private static final long serialVersionUID = 1L;

        private void note(
                Iterable<CacheEntryEvent<? extends String, ? extends String>> told, String sign) {
            for (CacheEntryEvent<? extends String, ? extends String> event : told) {
                if ("bad".equals(event.getValue())) {
                    throw new IllegalStateException("not this one");
                }
                events.add(
                        sign + event.getKey() + "=" + event.getOldValue() + ">" + event.getValue());
            }
        }

        @Override
        public void onCreated(Iterable<CacheEntryEvent<? extends String, ? extends String>> told) {
            note(told, "+");
        }

        @Override
        public void onUpdated(Iterable<CacheEntryEvent<? extends String, ? extends String>> told) {
            note(told, "~");
        }

        @Override
        public void onRemoved(Iterable<CacheEntryEvent<? extends String, ? extends String>> told) {
            note(told, "-");
        }
    }

    private static final class Loader implements CacheLoader<String, String> {
        @Override
        public String load(String key) {
            return key.startsWith("l") ? "loaded" : null;
        }

        @Override
        public Map<String, String> loadAll(Iterable<? extends String> keys) {
            return Map.of();
        }
    }

    private MutableCacheEntryListenerConfiguration<String, String> listener(
            CacheEntryEventFilter<String, String> filter, boolean synchronous) {
        return new MutableCacheEntryListenerConfiguration<>(
                Told::new, filter == null ? null : () -> filter, true, synchronous);
    }

    @Test
    void eachChangeIsToldWithWhatWasThere() {
        MutableConfiguration<String, String> configuration =
                texts().addCacheEntryListenerConfiguration(listener(null, true))
                        .setReadThrough(true)
                        .setCacheLoaderFactory(new FactoryBuilder.SingletonFactory<>(new Loader()));
        Cache<String, String> cache = manager.createCache("a", configuration);
        cache.put("k", "1");
        cache.put("k", "2");
        cache.putIfAbsent("k", "3");
        cache.replace("k", "2", "4");
        cache.invoke("k", ListenersTest::twice);
        cache.remove("k");
        cache.remove("k");
        assertEquals(
                List.of("+k=null>1", "~k=1>2", "~k=2>4", "~k=4>44", "-k=44>44"),
                List.copyOf(events));
        events.clear();
        assertEquals("loaded", cache.get("l"));
        assertEquals("loaded", cache.get("l"));
        assertNull(cache.get("none"));
        cache.putAll(Map.of("m", "1"));
        cache.removeAll(Set.of("m", "none"));
        cache.removeAll();
        assertEquals(
                List.of("+l=null>loaded", "+m=null>1", "-m=1>1", "-l=loaded>loaded"),
                List.copyOf(events));
        events.clear();
        cache.put("k", "1");
        cache.clear();
        assertEquals(List.of("+k=null>1"), List.copyOf(events));
    }

    private static Object twice(
            javax.cache.processor.MutableEntry<String, String> entry, Object... more) {
        entry.setValue(entry.getValue() + entry.getValue());
        return "";
    }

    @Test
    void listenersComeGoFilterAndFail() throws Exception {
        Cache<String, String> cache = manager.createCache("a", texts());
        var some = listener(event -> event.getKey().equals("some"), false);
        cache.registerCacheEntryListener(some);
        assertThrows(IllegalArgumentException.class, () -> cache.registerCacheEntryListener(some));
        cache.put("other", "1");
        cache.put("some", "1");
        Await.until("the event", () -> events.equals(List.of("+some=null>1")));
        cache.deregisterCacheEntryListener(some);
        cache.put("some", "2");
        cache.registerCacheEntryListener(listener(null, true));
        assertThrows(CacheEntryListenerException.class, () -> cache.put("some", "bad"));
        assertEquals("bad", cache.get("some"));
        assertEquals(1, events.size());
    }

    private static Object bean(String type, String attribute) throws Exception {
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        ObjectName name =
                new ObjectName("javax.cache:type=" + type + ",CacheManager=cellar.default,Cache=a");
        return beans.isRegistered(name) ? beans.getAttribute(name, attribute) : null;
    }

    private static Object counted(String attribute) throws Exception {
        return bean("CacheStatistics", attribute);
    }

    @Test
    void whatIsDoneIsCounted() throws Exception {
        Cache<String, String> cache =
                manager.createCache(
                        "a", texts().setStatisticsEnabled(true).setManagementEnabled(true));
        cache.put("k", "1");
        cache.putAll(Map.of("l", "1", "m", "1"));
        cache.get("k");
        cache.get("none");
        cache.getAll(Set.of("k", "l", "none"));
        cache.getAndPut("k", "2");
        cache.remove("k");
        cache.remove("none");
        cache.removeAll(Set.of("l", "none"));
        assertEquals(4L, counted("CachePuts"));
        assertEquals(6L, counted("CacheGets"));
        assertEquals(4L, counted("CacheHits"));
        assertEquals(2L, counted("CacheMisses"));
        assertEquals(2L, counted("CacheRemovals"));
        assertEquals(66, Math.round((Float) counted("CacheHitPercentage") - 0.5));
        assertTrue((Float) counted("AverageGetTime") > 0);
        assertEquals("java.lang.String", bean("CacheConfiguration", "ValueType"));
        manager.enableStatistics("a", false);
        assertNull(counted("CachePuts"));
        manager.enableStatistics("a", true);
        assertEquals(4L, counted("CachePuts"));
        cache.close();
        assertNull(counted("CachePuts"));
        assertNull(bean("CacheConfiguration", "ValueType"));
        assertFalse(manager.getCacheNames().iterator().hasNext());
    }
}
