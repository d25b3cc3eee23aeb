package cellar.client;

/**
 * Is told what the client does; for metrics.
 *
 * <p>Called from any thread, often; implementations return at once and throw nothing. All methods
 * do nothing unless overridden. Numbers of nanoseconds end in {@code _ns}.
 */
public interface CacheMetrics {
    /** Nobody is told; nothing is measured. */
    CacheMetrics NONE = new CacheMetrics() {};

    /** How a request ended. */
    enum Outcome {
        /** The item was there, or the change was made. */
        HIT,
        /** There was no such item. */
        MISS,
        /** No answer, or a refusal. */
        FAILURE
    }

    /** A request to {@code node} named {@code operation} took {@code latency_ns}. */
    default void request(String node, String operation, Outcome outcome, long latency_ns) {}

    /** A local copy was served, or there was none that could be. */
    default void local(boolean hit) {}

    /** A local copy was dropped because the server told of a change. */
    default void invalidated() {}

    /** A connection to {@code node} was opened; {@code again} if one had been lost before. */
    default void connected(String node, boolean again) {}

    /** A connection to {@code node} failed or broke. */
    default void disconnected(String node) {}

    /** A request was refused because {@code queue} of {@code node} was full. */
    default void overloaded(String node, String queue) {}

    /** So many writes wait to be replicated to {@code node}. */
    default void replicating(String node, int queued) {}

    /**
     * A client has this many unanswered requests to {@code node} when {@code inFlight} is asked.
     */
    default void gauge(String node, java.util.function.IntSupplier inFlight) {}
}
