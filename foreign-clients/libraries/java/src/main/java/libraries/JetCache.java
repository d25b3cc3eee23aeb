package libraries;

import static libraries.Show.show;

import com.alicp.jetcache.redis.lettuce.RedisLettuceCacheBuilder;
import com.alicp.jetcache.support.JavaValueDecoder;
import com.alicp.jetcache.support.JavaValueEncoder;
import io.lettuce.core.RedisClient;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/** JetCache: cache, locks, many keys. */
final class JetCache {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var cache =
                            RedisLettuceCacheBuilder.createRedisLettuceCacheBuilder()
                                    .keyConvertor(key -> key)
                                    .valueEncoder(JavaValueEncoder.INSTANCE)
                                    .valueDecoder(JavaValueDecoder.INSTANCE)
                                    .redisClient(RedisClient.create(Show.URL))
                                    .keyPrefix("app:")
                                    .expireAfterWrite(60, TimeUnit.SECONDS)
                                    .<String, String>buildCache();
                    cache.put("a", "one");
                    show("get", cache.get("a"), cache.get("none"), cache.putIfAbsent("a", "two"));
                    cache.putAll(Map.of("x", "1", "y", "2"));
                    show("many", new TreeMap<>(cache.getAll(Set.of("x", "y", "none"))));
                    show("made", cache.computeIfAbsent("b", key -> "made"), cache.remove("a"));
                    var lock = cache.tryLock("lock", 10, TimeUnit.SECONDS);
                    show("lock", lock != null, cache.tryLock("lock", 10, TimeUnit.SECONDS));
                    lock.close();
                });
    }
}
