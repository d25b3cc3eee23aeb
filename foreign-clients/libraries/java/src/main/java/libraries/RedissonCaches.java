package libraries;

import static libraries.Show.show;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import javax.cache.Caching;
import javax.cache.configuration.MutableConfiguration;
import javax.cache.expiry.CreatedExpiryPolicy;
import javax.cache.expiry.Duration;
import org.redisson.Redisson;
import org.redisson.config.Config;
import org.redisson.jcache.JCachingProvider;
import org.redisson.jcache.configuration.RedissonConfiguration;
import org.redisson.spring.cache.CacheConfig;
import org.redisson.spring.cache.RedissonSpringCacheManager;

/** Redisson's caches for JCache and for Spring. */
final class RedissonCaches {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var config = new Config();
                    config.useSingleServer().setAddress(Show.URL).setConnectionMinimumIdleSize(1);
                    var client = Redisson.create(config);
                    jcache(config);
                    var minute = new CacheConfig(60_000, 30_000);
                    var manager = new RedissonSpringCacheManager(client, Map.of("spring", minute));
                    manager.afterPropertiesSet();
                    var cache = manager.getCache("spring");
                    cache.put("a", "one");
                    show("spring", cache.get("a", String.class), cache.get("b") == null);
                    show("made", cache.get("c", () -> "made"), cache.get("c", String.class));
                    show("absent", cache.putIfAbsent("a", "two").get(), cache.evictIfPresent("a"));
                    cache.clear();
                    show("cleared", cache.get("c") == null);
                    var map = client.<String, String>getMapCache("limited");
                    map.setMaxSize(2);
                    map.put("a", "1", 60, TimeUnit.SECONDS, 30, TimeUnit.SECONDS);
                    map.put("b", "2", 60, TimeUnit.SECONDS);
                    map.put("c", "3", 60, TimeUnit.SECONDS);
                    show("limited", map.size(), map.get("c"), map.remainTimeToLive("c") > 0);
                    show("taken", map.remove("c"), map.fastPutIfAbsent("d", "4"));
                });
    }

    private static void jcache(Config config) {
        var manager = Caching.getCachingProvider(JCachingProvider.class.getName()).getCacheManager();
        var items = new MutableConfiguration<String, Integer>();
        items.setStatisticsEnabled(true)
                .setExpiryPolicyFactory(CreatedExpiryPolicy.factoryOf(Duration.ONE_MINUTE));
        var cache = manager.createCache("jcache", RedissonConfiguration.fromConfig(config, items));
        cache.put("a", 1);
        show("jcache", cache.get("a"), cache.get("b"), cache.putIfAbsent("a", 2));
        show("replaced", cache.replace("a", 1, 3), cache.getAndPut("a", 4), cache.containsKey("a"));
        cache.putAll(Map.of("b", 5, "c", 6));
        show("all", new java.util.TreeMap<>(cache.getAll(java.util.Set.of("a", "b", "c", "d"))));
        var sum = cache.invoke("a", (entry, more) -> entry.getValue() + (int) more[0], 10);
        show("invoked", sum, cache.getAndRemove("a"), cache.remove("a"));
        cache.removeAll();
        show("left", cache.iterator().hasNext());
        manager.destroyCache("jcache");
    }
}
