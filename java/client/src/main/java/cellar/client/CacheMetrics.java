package cellar.client;

/**
 * Receives the events of a client, for metrics.
 *
 * <p>The client calls the methods often and from any thread. Implementations return at once and
 * throw nothing. By default no method does anything. Names of values in nanoseconds end in {@code
 * _ns}.
 */
public interface CacheMetrics {
    /** Ignores all events; the client then measures nothing. */
    CacheMetrics NONE = new CacheMetrics() {};

    /** The outcome of a request. */
    enum Outcome {
        /** The item existed, or the change was made. */
        HIT,
        /** The item did not exist. */
        MISS,
        /** No answer, or an error. */
        FAILURE
    }

    /** A request to {@code node} named {@code operation} took {@code latency_ns}. */
    default void request(String node, String operation, Outcome outcome, long latency_ns) {}

    /** A read found a usable local copy, or did not. */
    default void local(boolean hit) {}

    /** A local copy was dropped because the server sent an invalidation. */
    default void invalidated() {}

    /** A connection to {@code node} was opened; {@code again} if an earlier one had been lost. */
    default void connected(String node, boolean again) {}

    /** A connection to {@code node} failed or broke. */
    default void disconnected(String node) {}

    /** A request failed because {@code queue} of {@code node} was full. */
    default void overloaded(String node, String queue) {}

    /** {@code queued} changes wait to be replicated to {@code node}. */
    default void replicating(String node, int queued) {}

    /**
     * Registers a gauge: {@code inFlight} returns a client's current number of unanswered requests
     * to {@code node}.
     */
    default void gauge(String node, java.util.function.IntSupplier inFlight) {}
}
