package cellar.client.internal;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import java.time.Duration;
import java.util.function.LongSupplier;

/**
 * The keys for which loaders of this process have found nothing, with the end of each negative TTL.
 *
 * <p>A change of an item through this client removes its entry.
 */
final class Absences {
    /** Limit of entries; beyond it the least recently used are evicted. */
    private static final long KEYS_MAX = 1 << 16;

    private final LongSupplier ticker;
    private final Cache<String, Long> until_ns =
            Caffeine.newBuilder().maximumSize(KEYS_MAX).build();

    /** False until the first load finds nothing, so that changes need not search an empty table. */
    private volatile boolean used;

    Absences(LongSupplier ticker) {
        this.ticker = ticker;
    }

    void remember(String key, Duration ttl) {
        used = true;
        until_ns.put(key, ticker.getAsLong() + ttl.toNanos());
    }

    boolean has(String key) {
        Long end_ns = used ? until_ns.getIfPresent(key) : null;
        if (end_ns != null && end_ns - ticker.getAsLong() <= 0) {
            until_ns.invalidate(key);
            return false;
        }
        return end_ns != null;
    }

    void forget(String key) {
        if (used) {
            until_ns.invalidate(key);
        }
    }

    void forgetAll() {
        until_ns.invalidateAll();
    }
}
