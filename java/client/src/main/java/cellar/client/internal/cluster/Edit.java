package cellar.client.internal.cluster;

import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** What a change does to an item at its home, where that is not one command of the server. */
public sealed interface Edit<R extends @Nullable Object> {
    /** Stores whatever is there. */
    record Put<R extends @Nullable Object>(Item item, R answer) implements Edit<R> {}

    /**
     * Counts.
     *
     * @param initial what is stored if there is no number; -1 for nothing
     * @param expiry of {@code initial}
     */
    record Count(long by, boolean down, long initial, long expiry) implements Edit<@Nullable Long> {
        /** The number that comes of {@code before}. */
        long next(long before) {
            return down ? Math.max(0, before - by) : before + by;
        }
    }

    /**
     * Looks at what is there, and stores if that has not changed meanwhile.
     *
     * @param again whether it may be done twice
     * @param everywhere whether the caller waits for all copies
     */
    record Decide<R extends @Nullable Object>(
            Function<Found, Decision<R>> decide, boolean again, boolean everywhere)
            implements Edit<R> {}

    /** What is to be there, null if nothing is to change; and what the caller is told. */
    record Decision<R extends @Nullable Object>(@Nullable Item next, R answer) {}
}
