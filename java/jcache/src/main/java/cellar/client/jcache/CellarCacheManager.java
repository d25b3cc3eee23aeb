package cellar.client.jcache;

import cellar.client.CacheException;
import cellar.client.config.CacheRegistry;
import java.net.URI;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import javax.cache.Cache;
import javax.cache.CacheManager;
import javax.cache.configuration.Configuration;
import javax.cache.spi.CachingProvider;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/** The caches of a {@link CacheRegistry} as JCache caches. */
@NullMarked
final class CellarCacheManager implements CacheManager {
    private final CachingProvider provider;
    private final URI uri;
    private final ClassLoader loader;
    private final Properties properties;
    private final CacheRegistry registry;
    private final Map<String, CellarCache<?, ?>> caches = new ConcurrentHashMap<>();
    private volatile boolean closed;

    CellarCacheManager(
            CachingProvider provider,
            URI uri,
            ClassLoader loader,
            Properties properties,
            CacheRegistry registry) {
        this.provider = provider;
        this.uri = uri;
        this.loader = loader;
        this.properties = properties;
        this.registry = registry;
    }

    @Override
    public CachingProvider getCachingProvider() {
        return provider;
    }

    @Override
    public URI getURI() {
        return uri;
    }

    @Override
    public ClassLoader getClassLoader() {
        return loader;
    }

    @Override
    public Properties getProperties() {
        return properties;
    }

    @Override
    public <K, V, C extends Configuration<K, V>> Cache<K, V> createCache(
            String name, C configuration) {
        requireOpen();
        CellarCache<K, V> made;
        try {
            made = new CellarCache<>(this, name, registry.cache(name), configuration);
        } catch (CacheException.Configuration e) {
            throw new javax.cache.CacheException(e.getMessage(), e);
        }
        if (caches.putIfAbsent(name, made) != null) {
            throw new javax.cache.CacheException("there is a cache " + name + " already");
        }
        made.show();
        return made;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <K, V> @Nullable Cache<K, V> getCache(String name, Class<K> key, Class<V> value) {
        CellarCache<K, V> found = (CellarCache<K, V>) getCache(name);
        if (found != null) {
            Configuration<K, V> types = found.types();
            if (!types.getKeyType().equals(key) || !types.getValueType().equals(value)) {
                throw new ClassCastException("the cache " + name + " has other types");
            }
        }
        return found;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <K, V> @Nullable Cache<K, V> getCache(String name) {
        requireOpen();
        return (Cache<K, V>) caches.get(name);
    }

    @Override
    public Iterable<String> getCacheNames() {
        requireOpen();
        return java.util.List.copyOf(caches.keySet());
    }

    @Override
    public void destroyCache(String name) {
        requireOpen();
        CellarCache<?, ?> cache = caches.get(name);
        if (cache != null) {
            cache.clear();
            cache.close();
        }
    }

    void forget(String name) {
        caches.remove(name);
    }

    @Override
    public void enableManagement(String name, boolean enabled) {
        cache(name).management(enabled);
    }

    @Override
    public void enableStatistics(String name, boolean enabled) {
        cache(name).statistics(enabled);
    }

    private CellarCache<?, ?> cache(String name) {
        requireOpen();
        CellarCache<?, ?> cache = caches.get(name);
        if (cache == null) {
            throw new IllegalArgumentException("there is no cache " + name);
        }
        return cache;
    }

    private void requireOpen() {
        if (closed) {
            throw new IllegalStateException("the manager is closed");
        }
    }

    @Override
    public void close() {
        closed = true;
        caches.values().forEach(CellarCache::close);
        registry.close();
    }

    @Override
    public boolean isClosed() {
        return closed;
    }

    @Override
    public <T> T unwrap(Class<T> type) {
        if (type.isInstance(this)) {
            return type.cast(this);
        }
        throw new IllegalArgumentException("not a " + type);
    }
}
