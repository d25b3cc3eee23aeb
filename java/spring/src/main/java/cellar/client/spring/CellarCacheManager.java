package cellar.client.spring;

import cellar.client.CacheClient;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;
import org.springframework.cache.Cache;
import org.springframework.cache.CacheManager;

/**
 * Spring's caches in one {@link CacheClient}, which stays the caller's to close.
 *
 * <p>A key is the cache's name, {@code ::} and the text of Spring's key; one that memcached does
 * not take is replaced by its digest. Safe for use by many threads.
 */
@NullMarked
public final class CellarCacheManager implements CacheManager {
    private final CacheClient<Object> client;
    private final Duration ttl;
    private final Map<String, Duration> ttls;
    private final @Nullable Duration localTtl;
    private final Map<String, Cache> caches = new ConcurrentHashMap<>();

    private CellarCacheManager(
            CacheClient<Object> client,
            Duration ttl,
            Map<String, Duration> ttls,
            @Nullable Duration localTtl) {
        this.client = client;
        this.ttl = ttl;
        this.ttls = Map.copyOf(ttls);
        this.localTtl = localTtl;
    }

    /** Caches whose items live for {@code ttl}. */
    public static CellarCacheManager of(CacheClient<Object> client, Duration ttl) {
        return new CellarCacheManager(client, ttl, Map.of(), null);
    }

    /** The same, with other times for some caches, by name. */
    public CellarCacheManager ttls(Map<String, Duration> others) {
        return new CellarCacheManager(client, ttl, others, localTtl);
    }

    /** The same, but read through the client's local cache, which must have been configured. */
    public CellarCacheManager localTtl(Duration localTtl) {
        return new CellarCacheManager(client, ttl, ttls, localTtl);
    }

    @Override
    public Cache getCache(String name) {
        return caches.computeIfAbsent(
                name,
                same -> new CellarCache(name, client, ttls.getOrDefault(name, ttl), localTtl));
    }

    @Override
    public Collection<String> getCacheNames() {
        return caches.keySet();
    }
}
