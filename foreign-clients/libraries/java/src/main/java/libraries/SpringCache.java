package libraries;

import static libraries.Show.show;

import java.time.Duration;
import org.springframework.data.redis.cache.RedisCacheConfiguration;
import org.springframework.data.redis.cache.RedisCacheManager;

/** Spring's cache over Redis. */
final class SpringCache {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var defaults = RedisCacheConfiguration.defaultCacheConfig();
                    var manager =
                            RedisCacheManager.builder(SpringData.factory())
                                    .cacheDefaults(defaults.entryTtl(Duration.ofMinutes(1)))
                                    .build();
                    var cache = manager.getCache("app");
                    cache.put("a", "one");
                    show("get", cache.get("a", String.class), cache.get("none"));
                    show("made", cache.get("b", () -> "made"), cache.get("b", () -> "again"));
                    show("absent", cache.putIfAbsent("a", "two").get());
                    cache.evict("a");
                    show("evicted", cache.get("a"));
                    show("invalidated", cache.invalidate(), cache.get("b"));
                });
    }
}
