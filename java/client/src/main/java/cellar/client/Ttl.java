package cellar.client;

import java.time.Duration;

/** Times to live that are no ordinary duration. */
public final class Ttl {
    /** The item stays until it is evicted or deleted. */
    public static final Duration NEVER = Duration.ofSeconds(Long.MAX_VALUE);

    private Ttl() {}
}
