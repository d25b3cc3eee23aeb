package cellar.client.config;

import cellar.client.CacheException;
import java.io.InputStream;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Caches by name, as a file describes them. Immutable.
 *
 * <p>The keys are those of {@link CacheSettings}. In properties they are called {@code
 * cache.NAME.KEY}; in YAML they stand under {@code caches: NAME:}, lists as lists. A key that is
 * not known is an error that names it.
 */
public final class CacheConfiguration {
    private static final String PREFIX = "cache.";

    private final Map<String, CacheSettings> caches;

    CacheConfiguration(Map<String, CacheSettings> caches) {
        this.caches = Map.copyOf(caches);
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

    /** The caches of a YAML document; snakeyaml-engine must be on the class path. */
    public static CacheConfiguration yaml(InputStream document) {
        Object root = Yaml.read(document);
        Map<String, Map<String, String>> byName = new LinkedHashMap<>();
        for (Map.Entry<?, ?> cache :
                map(map(root, "the document").get("caches"), "caches").entrySet()) {
            String name = String.valueOf(cache.getKey());
            Map<String, String> keys = new LinkedHashMap<>();
            map(cache.getValue(), name)
                    .forEach((key, value) -> keys.put(String.valueOf(key), text(value)));
            byName.put(name, keys);
        }
        return of(byName);
    }

    private static Map<?, ?> map(Object node, String what) {
        if (node instanceof Map<?, ?> map) {
            return map;
        }
        throw new CacheException.Configuration(what + " is not a map of keys", null);
    }

    private static String text(Object value) {
        return value instanceof Collection<?> list
                ? String.join(",", list.stream().map(String::valueOf).toList())
                : String.valueOf(value);
    }

    /**
     * The clients and clusters of a {@code memcached.xml}, as memcache-client-forjava reads it.
     *
     * <p>Values have whalin's flags. A cluster becomes a replicated cache of the servers of its
     * clients, which must have one server each. Settings of the old connection pool have no meaning
     * here and are left out.
     */
    public static CacheConfiguration memcachedXml(InputStream document) {
        return new CacheConfiguration(MemcachedXml.read(document));
    }

    private static CacheConfiguration of(Map<String, Map<String, String>> byName) {
        Map<String, CacheSettings> caches = new LinkedHashMap<>();
        byName.forEach((name, keys) -> caches.put(name, CacheSettings.of(name, keys)));
        return new CacheConfiguration(caches);
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
