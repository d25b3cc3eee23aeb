package cellar.client;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How {@link CacheClient#getOrLoad} loads. Immutable.
 *
 * @param ttl of what is loaded; {@link Ttl#NEVER} or more than zero, whole seconds, rounded up
 * @param early how long before its end a value is loaded again by one caller while the others still
 *     get it; zero for never
 * @param patience how long to wait for another process that holds the lease before loading anyway
 * @param localTtl how old a local copy may be that is served instead; null for what the local cache
 *     says for all calls, which may be none
 * @param negativeTtl how long nobody loads again what a loader has not found, whole seconds,
 *     rounded up; null for not at all
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

    /** Loads for {@code ttl}, not early, waiting for others for at most five seconds. */
    public static LoadOptions ttl(Duration ttl) {
        return new LoadOptions(ttl, Duration.ZERO, Duration.ofSeconds(5), null, null);
    }

    /** The same, but loaded again when less than {@code early} is left. */
    public LoadOptions early(Duration early) {
        return new LoadOptions(ttl, early, patience, localTtl, negativeTtl);
    }

    /** The same, with another limit on waiting for the holder of the lease. */
    public LoadOptions patience(Duration patience) {
        return new LoadOptions(ttl, early, patience, localTtl, negativeTtl);
    }

    /** The same, but served from the local cache if its copy is no older than this. */
    public LoadOptions localTtl(Duration localTtl) {
        return new LoadOptions(ttl, early, patience, localTtl, negativeTtl);
    }

    /**
     * The same, but what a loader has not found is not loaded again for so long, here and in other
     * processes that say so too. A value that somebody stores meanwhile is found all the same.
     */
    public LoadOptions negativeTtl(Duration negativeTtl) {
        return new LoadOptions(ttl, early, patience, localTtl, negativeTtl);
    }
}
