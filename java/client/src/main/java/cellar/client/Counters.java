package cellar.client;

import java.time.Duration;
import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;

/**
 * Numbers from 0 to 2^63 - 1 that the server changes atomically, for example for rate limits.
 *
 * <p>They are stored as decimal digits, which every memcached client can read. Safe for use by many
 * threads. If the outcome of a request is unknown (time-out, broken connection), the client does
 * not send it again.
 */
public interface Counters {
    /** Sets the number. */
    CompletionStage<@Nullable Void> store(String key, long number, Duration ttl);

    /** Reads the number; null if there is none. */
    CompletionStage<@Nullable Long> get(String key);

    /** Adds {@code by}, at least 0; returns the new number, or null if there is none. */
    CompletionStage<@Nullable Long> increment(String key, long by);

    /**
     * Subtracts {@code by}, at least 0, but stops at 0; returns the new number, or null if there is
     * none.
     */
    CompletionStage<@Nullable Long> decrement(String key, long by);

    /**
     * Adds {@code by}, or stores {@code by} with {@code ttl} if there is no number. An existing
     * number keeps its TTL. For a rate limit, increment and reject results above the limit until
     * the counter has expired.
     */
    CompletionStage<Long> addOrIncrement(String key, long by, Duration ttl);

    /** Subtracts {@code by}, or stores {@code initial} with {@code ttl} if there is no number. */
    CompletionStage<Long> addOrDecrement(String key, long by, long initial, Duration ttl);
}
