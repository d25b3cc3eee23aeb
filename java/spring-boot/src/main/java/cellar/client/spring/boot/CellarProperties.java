package cellar.client.spring.boot;

import cellar.client.config.CacheConfiguration;
import cellar.client.config.CacheSettings;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties of an application under {@code cellar}.
 *
 * @param client the keys of {@link CacheSettings}; default of nodes: {@code 127.0.0.1:11211}
 * @param ttl of items in caches without a TTL of their own
 * @param localTtl maximum age of a local copy; null for none; needs local-cache-bytes
 * @param generationTtl how long a process may not notice that another one has cleared a cache
 * @param nulls whether null values are stored
 * @param caches settings of single caches, by name
 */
@NullMarked
@ConfigurationProperties("cellar")
public record CellarProperties(
        @DefaultValue Map<String, String> client,
        @DefaultValue("10m") Duration ttl,
        @Nullable Duration localTtl,
        @DefaultValue("1s") Duration generationTtl,
        @DefaultValue("true") boolean nulls,
        @DefaultValue Map<String, Caches> caches) {
    /**
     * Settings of one cache.
     *
     * @param ttl of its items; null for the general one
     * @param codec of its values, as in {@link CacheSettings}; null for the client's
     */
    public record Caches(@Nullable Duration ttl, @Nullable String codec) {}

    /** Returns the client's settings. */
    CacheSettings settings() {
        Map<String, String> keys = new HashMap<>(client);
        if (!keys.containsKey("discovery")) {
            keys.putIfAbsent("nodes", "127.0.0.1:11211");
        }
        return settings("client", keys);
    }

    /** Returns settings with this codec. */
    CacheSettings codec(String cache, String codec) {
        return settings(cache, Map.of("nodes", "127.0.0.1", "codec", codec));
    }

    private static CacheSettings settings(String name, Map<String, String> keys) {
        Properties properties = new Properties();
        keys.forEach((key, text) -> properties.setProperty("cache." + name + "." + key, text));
        return CacheConfiguration.properties(properties).cache(name);
    }
}
