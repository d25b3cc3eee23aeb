package cellar.client.internal.net;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Pauses between attempts. Each is twice as long as the last one, up to a limit, and a random part
 * of up to half of it is subtracted.
 */
public final class Backoff {
    private static final int DOUBLINGS_MAX = 20;

    private final long min_ms;
    private final long max_ms;
    private int failures;

    /** Starts with {@code min}. */
    public Backoff(Duration min, Duration max) {
        this.min_ms = Math.max(1, min.toMillis());
        this.max_ms = Math.max(min_ms, max.toMillis());
    }

    /** Returns the pause after one more failure. */
    public long next_ms() {
        long full_ms = Math.min(max_ms, min_ms << Math.min(failures, DOUBLINGS_MAX));
        failures++;
        return full_ms / 2 + ThreadLocalRandom.current().nextLong(full_ms / 2 + 1);
    }

    /** The last attempt succeeded; starts again with the shortest pause. */
    public void reset() {
        failures = 0;
    }
}
