package cellar.client;

import java.time.Duration;

/**
 * How {@link CacheClient#getOrLoad} loads. Immutable.
 *
 * @param ttl of what is loaded; {@link Ttl#NEVER} or more than zero, whole seconds, rounded up
 * @param early how long before its end a value is loaded again by one caller while the others still
 *     get it; zero for never
 * @param patience how long to wait for another process that holds the lease before loading anyway
 */
public record LoadOptions(Duration ttl, Duration early, Duration patience) {
    /** Checks the durations. */
    public LoadOptions {
        if (ttl.isNegative() || ttl.isZero() || early.isNegative() || patience.isNegative()) {
            throw new IllegalArgumentException(
                    "ttl must be positive, early and patience not negative");
        }
    }

    /** Loads for {@code ttl}, not early, waiting for others for at most five seconds. */
    public static LoadOptions ttl(Duration ttl) {
        return new LoadOptions(ttl, Duration.ZERO, Duration.ofSeconds(5));
    }

    /** The same, but loaded again when less than {@code early} is left. */
    public LoadOptions early(Duration early) {
        return new LoadOptions(ttl, early, patience);
    }

    /** The same, with another limit on waiting for the holder of the lease. */
    public LoadOptions patience(Duration patience) {
        return new LoadOptions(ttl, early, patience);
    }
}
