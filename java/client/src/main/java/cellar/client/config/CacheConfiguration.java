package cellar.client.config;

import cellar.client.CacheException;
import java.io.InputStream;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Caches by name, as a file describes them. Immutable.
 *
 * <p>The keys are those of {@link CacheSettings}. In properties they are called {@code
 * cache.NAME.KEY}. A key that is not known is an error that names it.
 */
public final class CacheConfiguration {
    private static final String PREFIX = "cache.";

    private final Map<String, CacheSettings> caches;
    private final List<String> warnings;

    CacheConfiguration(Map<String, CacheSettings> caches, List<String> warnings) {
        this.caches = Map.copyOf(caches);
        this.warnings = List.copyOf(warnings);
    }

    /**
     * The caches of {@code properties}; keys that do not begin with {@code cache.} are left out.
     */
    public static CacheConfiguration properties(Properties properties) {
        Map<String, Map<String, String>> byName = new LinkedHashMap<>();
        for (String key : properties.stringPropertyNames()) {
            if (!key.startsWith(PREFIX)) {
                continue;
            }
            int dot = key.lastIndexOf('.');
            if (dot < PREFIX.length()) {
                throw new CacheException.Configuration(key + " is not cache.NAME.KEY", null);
            }
            byName.computeIfAbsent(
                            key.substring(PREFIX.length(), dot), name -> new LinkedHashMap<>())
                    .put(key.substring(dot + 1), properties.getProperty(key));
        }
        return of(byName);
    }

    /**
     * The clients and clusters of a {@code memcached.xml}, as memcache-client-forjava reads it.
     *
     * <p>Values have whalin's flags. A cluster becomes a replicated cache of the servers of its
     * clients, which must have one server each. Every client keeps local copies for calls that say
     * how old these may be, up to 16 MiB. Objects are refused unless {@code java-classes} names
     * theirs: it and all other keys of {@link CacheSettings} may be attributes of a client, a pool
     * or a cluster. What the file sets without effect is among the {@link #warnings}.
     */
    public static CacheConfiguration memcachedXml(InputStream document) {
        return MemcachedXml.read(document);
    }

    private static CacheConfiguration of(Map<String, Map<String, String>> byName) {
        Map<String, CacheSettings> caches = new LinkedHashMap<>();
        byName.forEach((name, keys) -> caches.put(name, CacheSettings.of(name, keys)));
        return new CacheConfiguration(caches, List.of());
    }

    /** What the file sets without effect, each with the reason; logged as well. */
    public List<String> warnings() {
        return warnings;
    }

    /** The names of all caches, sorted. */
    public List<String> names() {
        return caches.keySet().stream().sorted().toList();
    }

    /**
     * How a cache is set up.
     *
     * @throws CacheException.Configuration if there is none of this name
     */
    public CacheSettings cache(String name) {
        CacheSettings settings = caches.get(name);
        if (settings == null) {
            throw new CacheException.Configuration("no cache " + name + " in " + names(), null);
        }
        return settings;
    }
}
