package cellar.client;

import java.time.Duration;
import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;

/**
 * Numbers from 0 to 2^63 - 1 that change in one step on the server, for example to limit rates.
 *
 * <p>Stored as decimal digits, readable by every client of memcached. Safe for use by many threads.
 * A request whose fate is not known (time-out, broken connection) is never sent a second time.
 */
public interface Counters {
    /** Sets the number. */
    CompletionStage<@Nullable Void> store(String key, long number, Duration ttl);

    /** Reads the number; null if there is none. */
    CompletionStage<@Nullable Long> get(String key);

    /** Adds {@code by}, at least 0; the new number, or null if there is none. */
    CompletionStage<@Nullable Long> increment(String key, long by);

    /** Takes {@code by}, at least 0, but not below 0; the new number, or null if there is none. */
    CompletionStage<@Nullable Long> decrement(String key, long by);

    /**
     * Adds {@code by}, or stores {@code by} with {@code ttl} if there is no number. A number that
     * is there keeps its TTL, so a rate limit is: count, and refuse above the limit until the
     * counter has expired.
     */
    CompletionStage<Long> addOrIncrement(String key, long by, Duration ttl);

    /** Takes {@code by}, or stores {@code initial} with {@code ttl} if there is no number. */
    CompletionStage<Long> addOrDecrement(String key, long by, long initial, Duration ttl);
}
