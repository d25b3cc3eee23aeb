package cellar.client.internal.cluster;

import cellar.client.CasOutcome;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * One connection to a node of a replicated cluster, as the rules see it.
 *
 * <p>A stage fails with {@link cellar.client.CacheException}: as {@code Connection} or {@code
 * Timeout} if the node is at fault; then the request may have been done or not, or be done later.
 */
public interface Peer {
    /** What must be there for an item to be stored. */
    enum If {
        /** Whatever is there. */
        ANY,
        /** Nothing. */
        ABSENT,
        /** The version given. */
        SAME
    }

    /** The outcome of a store, with the version that the node has given to the item. */
    record Stored(CasOutcome outcome, long version) {
        boolean done() {
            return outcome == CasOutcome.STORED;
        }
    }

    /** Reads an item. */
    CompletableFuture<Found> read(byte[] key);

    /**
     * Reads an item without its version, for which some servers write the item anew that nobody has
     * asked for its version before.
     */
    CompletableFuture<Found> readOnly(byte[] key);

    /** Stores an item. */
    CompletableFuture<Stored> store(byte[] key, Item item, If condition, long version);

    /** Counts; null if there is no number, and fails as refused if there is something else. */
    CompletableFuture<@Nullable Long> count(byte[] key, Edit.Count count);

    /** Removes everything. */
    CompletableFuture<?> flush();

    /** Lists the keys. */
    CompletableFuture<Set<String>> keys();
}
