package cellar.client.internal.cluster;

import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** A change of an item at its home, where one command of the server is not enough. */
public sealed interface Edit<R extends @Nullable Object> {
    /** Stores an item without a condition. */
    record Put<R extends @Nullable Object>(Item item, R answer) implements Edit<R> {}

    /**
     * Increments or decrements a counter.
     *
     * @param initial stored if there is no number; -1 to store nothing
     * @param expiry of {@code initial}
     */
    record Count(long by, boolean down, long initial, long expiry) implements Edit<@Nullable Long> {
        /** Returns the number after {@code before}. */
        long next(long before) {
            return down ? Math.max(0, before - by) : before + by;
        }
    }

    /**
     * Reads the item, decides, and stores on the condition that the item is unchanged.
     *
     * @param again whether it may be executed twice
     * @param everywhere whether the caller waits for all copies
     */
    record Decide<R extends @Nullable Object>(
            Function<Found, Decision<R>> decide, boolean again, boolean everywhere)
            implements Edit<R> {}

    /** The item to store, null for none, and the answer to the caller. */
    record Decision<R extends @Nullable Object>(@Nullable Item next, R answer) {}
}
