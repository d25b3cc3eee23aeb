package cellar.client;

import java.time.Duration;

/** Special values of a TTL. */
public final class Ttl {
    /** The item does not expire; it stays until it is evicted or deleted. */
    public static final Duration NEVER = Duration.ofSeconds(Long.MAX_VALUE);

    private Ttl() {}
}
