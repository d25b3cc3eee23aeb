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
 * Spring's caches in one {@link CacheClient}, which stays the caller's to close.
 *
 * <p>A key is the cache's name, {@code ::}, the cache's generation, {@code :} and the text of
 * Spring's key; one that memcached does not take is replaced by its digest. To clear a cache gives
 * it another generation, so that no server has to list its keys. Values have the codec of their
 * cache, or the client's; null is a value too unless said otherwise. Safe for use by many threads.
 */
@NullMarked
public final class CellarCacheManager implements CacheManager {
    /** For how long a process may use a generation without asking; see {@link #generationTtl}. */
    private static final Duration GENERATION_TTL = Duration.ofSeconds(1);

    /** How caches are made; immutable. */
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

    /** Caches whose items live for {@code ttl}. */
    public static CellarCacheManager of(CacheClient<?> client, Duration ttl) {
        return new CellarCacheManager(
                new Settings(client, ttl, Map.of(), Map.of(), null, GENERATION_TTL, true));
    }

    /** The same, with other times for some caches, by name. */
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

    /** The same, with values of these classes in some caches, by name, as JSON. */
    public CellarCacheManager types(Map<String, ? extends Class<?>> types) {
        Map<String, Codec<?>> json = new HashMap<>(settings.codecs);
        types.forEach((name, type) -> json.put(name, Codecs.json(type)));
        return codecs(json);
    }

    /** The same, with other codecs for some caches, by name. */
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

    /** The same, but read through the client's local cache, which must have been configured. */
    public CellarCacheManager localTtl(Duration localTtl) {
        Settings s = settings;
        return new CellarCacheManager(
                new Settings(
                        s.client, s.ttl, s.ttls, s.codecs, localTtl, s.generationTtl, s.nulls));
    }

    /**
     * The same, with another time after which a process asks whether a cache was cleared by another
     * one; a second unless said. Through a local cache that is told of changes it knows sooner.
     */
    public CellarCacheManager generationTtl(Duration generationTtl) {
        Settings s = settings;
        return new CellarCacheManager(
                new Settings(
                        s.client, s.ttl, s.ttls, s.codecs, s.localTtl, generationTtl, s.nulls));
    }

    /** The same, but null is not stored: it is loaded again each time. */
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

    /** The caches that were named here, and those that were used. */
    @Override
    public Collection<String> getCacheNames() {
        Set<String> names = new TreeSet<>(caches.keySet());
        names.addAll(settings.ttls.keySet());
        names.addAll(settings.codecs.keySet());
        return names;
    }
}
