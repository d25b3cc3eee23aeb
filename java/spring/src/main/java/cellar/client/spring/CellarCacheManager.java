package cellar.client.spring;

import cellar.client.CacheClient;
import cellar.client.Codec;
import cellar.client.Codecs;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;
import org.springframework.cache.Cache;
import org.springframework.cache.CacheManager;

/**
 * Spring caches in one {@link CacheClient}, which the caller closes.
 *
 * <p>A key consists of the cache's name, {@code ::}, the cache's generation, {@code :} and the text
 * of Spring's key. If that is not a valid memcached key, its digest replaces it. Clearing a cache
 * gives it another generation, so no server has to list its keys. Values have the codec of their
 * cache, or the client's. Null values are stored unless {@link #withoutNulls} is used. Safe for use
 * by many threads.
 */
@NullMarked
public final class CellarCacheManager implements CacheManager {
    /** How long a process may use a generation without a request; see {@link #generationTtl}. */
    private static final Duration GENERATION_TTL = Duration.ofSeconds(1);

    /** The settings of caches; immutable. */
    private record Settings(
            CacheClient<?> client,
            Duration ttl,
            Map<String, Duration> ttls,
            Map<String, Codec<?>> codecs,
            @Nullable Duration localTtl,
            Duration generationTtl,
            boolean nulls) {}

    private final Settings settings;
    private final Map<String, Cache> caches = new ConcurrentHashMap<>();

    private CellarCacheManager(Settings settings) {
        this.settings = settings;
    }

    /** Returns a manager of caches whose items have this TTL. */
    public static CellarCacheManager of(CacheClient<?> client, Duration ttl) {
        return new CellarCacheManager(
                new Settings(client, ttl, Map.of(), Map.of(), null, GENERATION_TTL, true));
    }

    /** Returns a manager with other TTLs for some caches, by name. */
    public CellarCacheManager ttls(Map<String, Duration> others) {
        Settings s = settings;
        return new CellarCacheManager(
                new Settings(
                        s.client,
                        s.ttl,
                        Map.copyOf(others),
                        s.codecs,
                        s.localTtl,
                        s.generationTtl,
                        s.nulls));
    }

    /** Returns a manager with values of these classes in some caches, by name, as JSON. */
    public CellarCacheManager types(Map<String, ? extends Class<?>> types) {
        Map<String, Codec<?>> json = new HashMap<>(settings.codecs);
        types.forEach((name, type) -> json.put(name, Codecs.json(type)));
        return codecs(json);
    }

    /** Returns a manager with other codecs for some caches, by name. */
    public CellarCacheManager codecs(Map<String, ? extends Codec<?>> codecs) {
        Settings s = settings;
        return new CellarCacheManager(
                new Settings(
                        s.client,
                        s.ttl,
                        s.ttls,
                        Map.copyOf(codecs),
                        s.localTtl,
                        s.generationTtl,
                        s.nulls));
    }

    /**
     * Returns a manager whose caches read through the client's local cache, which must be
     * configured.
     */
    public CellarCacheManager localTtl(Duration localTtl) {
        Settings s = settings;
        return new CellarCacheManager(
                new Settings(
                        s.client, s.ttl, s.ttls, s.codecs, localTtl, s.generationTtl, s.nulls));
    }

    /**
     * Returns a manager with another interval after which a process checks whether another one has
     * cleared a cache. Default: 1 second. With tracking, a local cache learns it sooner.
     */
    public CellarCacheManager generationTtl(Duration generationTtl) {
        Settings s = settings;
        return new CellarCacheManager(
                new Settings(
                        s.client, s.ttl, s.ttls, s.codecs, s.localTtl, generationTtl, s.nulls));
    }

    /** Returns a manager whose caches do not store null; it is loaded again each time. */
    public CellarCacheManager withoutNulls() {
        Settings s = settings;
        return new CellarCacheManager(
                new Settings(
                        s.client, s.ttl, s.ttls, s.codecs, s.localTtl, s.generationTtl, false));
    }

    @Override
    public Cache getCache(String name) {
        return caches.computeIfAbsent(name, this::cache);
    }

    private Cache cache(String name) {
        Settings s = settings;
        Codec<?> codec = s.codecs.get(name);
        CacheClient<Object> client =
                s.client.withCodec(new NullCodec(name, codec == null ? s.client.codec() : codec));
        Generation generation =
                new Generation(
                        s.client.withCodec(Codecs.string()),
                        CellarCache.fitting(name + "::"),
                        s.generationTtl,
                        s.localTtl != null);
        Duration ttl = s.ttls.getOrDefault(name, s.ttl);
        return new CellarCache(name, client, generation, ttl, s.localTtl, s.nulls);
    }

    /** Returns the configured caches and those that were used. */
    @Override
    public Collection<String> getCacheNames() {
        Set<String> names = new TreeSet<>(caches.keySet());
        names.addAll(settings.ttls.keySet());
        names.addAll(settings.codecs.keySet());
        return names;
    }
}
