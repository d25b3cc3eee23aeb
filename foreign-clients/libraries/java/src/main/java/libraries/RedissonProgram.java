package libraries;

import static libraries.Show.show;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RateType;
import org.redisson.config.Config;

/** Redisson: buckets, maps, locks, rate limits. */
final class RedissonProgram {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var config = new Config();
                    config.useSingleServer().setAddress(Show.URL).setConnectionMinimumIdleSize(1);
                    var r = Redisson.create(config);
                    var bucket = r.<String>getBucket("a");
                    bucket.set("one", Duration.ofMinutes(1));
                    show("bucket", bucket.get(), bucket.isExists(), bucket.getAndDelete());
                    var map = r.<String, Integer>getMap("map");
                    show("map", map.put("a", 1), map.putIfAbsent("a", 2), map.get("a"));
                    var cache = r.<String, String>getMapCache("cache");
                    show("map cache", cache.put("k", "v", 60, TimeUnit.SECONDS), cache.get("k"));
                    show("counter", r.getAtomicLong("n").addAndGet(5), r.getSet("s").add("x"));
                    var lock = r.getLock("printer");
                    show("lock", lock.tryLock(1, 10, TimeUnit.SECONDS), lock.isLocked());
                    lock.unlock();
                    var limit = r.getRateLimiter("limit");
                    limit.trySetRate(RateType.OVERALL, 2, Duration.ofHours(1));
                    show("limit", limit.tryAcquire(), limit.tryAcquire(), limit.tryAcquire());
                });
    }
}
