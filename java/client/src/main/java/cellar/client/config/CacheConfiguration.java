package cellar.client.config;

import cellar.client.CacheException;
import java.io.InputStream;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Named caches, as a file describes them. Immutable.
 *
 * <p>The keys are those of {@link CacheSettings}. In properties they are written {@code
 * cache.NAME.KEY}. An unknown key is an error that names it.
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
     * Reads the caches of {@code properties}; ignores keys that do not begin with {@code cache.}.
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
     * Reads the clients and clusters of a {@code memcached.xml} of memcache-client-forjava.
     *
     * <p>Values have whalin's flags. A cluster becomes a replicated cache of the servers of its
     * clients, which must have one server each. Every client keeps up to 16 MiB of local copies,
     * for calls with a {@code localTtl}. Objects are rejected unless {@code java-classes} names
     * their classes. This and all other keys of {@link CacheSettings} may be attributes of a
     * client, a pool or a cluster. Settings of the file that have no effect are listed in {@link
     * #warnings}.
     */
    public static CacheConfiguration memcachedXml(InputStream document) {
        return MemcachedXml.read(document);
    }

    private static CacheConfiguration of(Map<String, Map<String, String>> byName) {
        Map<String, CacheSettings> caches = new LinkedHashMap<>();
        byName.forEach((name, keys) -> caches.put(name, CacheSettings.of(name, keys)));
        return new CacheConfiguration(caches, List.of());
    }

    /** Returns the settings of the file that have no effect, with the reasons; also logged. */
    public List<String> warnings() {
        return warnings;
    }

    /** Returns the names of all caches, sorted. */
    public List<String> names() {
        return caches.keySet().stream().sorted().toList();
    }

    /**
     * Returns the settings of a cache.
     *
     * @throws CacheException.Configuration if there is no cache of this name
     */
    public CacheSettings cache(String name) {
        CacheSettings settings = caches.get(name);
        if (settings == null) {
            throw new CacheException.Configuration("no cache " + name + " in " + names(), null);
        }
        return settings;
    }
}
