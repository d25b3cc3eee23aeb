package cellar.client;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How {@link CacheClient#getOrLoad} loads. Immutable.
 *
 * @param ttl of a loaded value; {@link Ttl#NEVER} or more than zero; rounded up to whole seconds
 * @param early how long before the expiry one caller loads the value again, while the others still
 *     get the old one; zero to disable
 * @param patience how long to wait for another process with the lease before loading anyway
 * @param localTtl maximum age of a local copy that is returned instead; null for the local cache's
 *     own setting, which may be none
 * @param negativeTtl how long the loader is not called again after it has found nothing; rounded up
 *     to whole seconds; null to disable
 */
public record LoadOptions(
        Duration ttl,
        Duration early,
        Duration patience,
        @Nullable Duration localTtl,
        @Nullable Duration negativeTtl) {
    /** Checks the durations. */
    public LoadOptions {
        if (ttl.isNegative() || ttl.isZero() || early.isNegative() || patience.isNegative()) {
            throw new IllegalArgumentException(
                    "ttl must be positive, early and patience not negative");
        }
        if (localTtl != null && localTtl.isNegative()) {
            throw new IllegalArgumentException("localTtl must not be negative");
        }
        if (negativeTtl != null && (negativeTtl.isNegative() || negativeTtl.isZero())) {
            throw new IllegalArgumentException("negativeTtl must be positive");
        }
    }

    /**
     * Returns options with this TTL, without early loads, that wait at most five seconds for
     * others.
     */
    public static LoadOptions ttl(Duration ttl) {
        return new LoadOptions(ttl, Duration.ZERO, Duration.ofSeconds(5), null, null);
    }

    /** Returns these options, with a new load when less than {@code early} of the TTL is left. */
    public LoadOptions early(Duration early) {
        return new LoadOptions(ttl, early, patience, localTtl, negativeTtl);
    }

    /** Returns these options with another limit for waiting for the holder of the lease. */
    public LoadOptions patience(Duration patience) {
        return new LoadOptions(ttl, early, patience, localTtl, negativeTtl);
    }

    /** Returns these options; a local copy of at most this age is returned instead of a request. */
    public LoadOptions localTtl(Duration localTtl) {
        return new LoadOptions(ttl, early, patience, localTtl, negativeTtl);
    }

    /**
     * Returns these options; after a loader has found nothing, loaders are not called for this
     * time. This applies to this process and to other processes that set a {@code negativeTtl}. A
     * value that any client stores meanwhile is found.
     */
    public LoadOptions negativeTtl(Duration negativeTtl) {
        return new LoadOptions(ttl, early, patience, localTtl, negativeTtl);
    }
}
