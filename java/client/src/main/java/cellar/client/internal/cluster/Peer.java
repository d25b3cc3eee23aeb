package cellar.client.internal.cluster;

import cellar.client.CasOutcome;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * A connection to a node of a replicated cluster.
 *
 * <p>A stage fails with {@link cellar.client.CacheException}. {@code Connection} and {@code
 * Timeout} mean that the node is at fault; then the node may have executed the request, or may
 * still execute it.
 */
public interface Peer {
    /** The condition on which an item is stored. */
    enum If {
        /** Always. */
        ANY,
        /** If there is no item. */
        ABSENT,
        /** If the item has the given version. */
        SAME
    }

    /** The outcome of a store, with the version that the node has assigned to the item. */
    record Stored(CasOutcome outcome, long version) {
        boolean done() {
            return outcome == CasOutcome.STORED;
        }
    }

    /** Reads an item. */
    CompletableFuture<Found> read(byte[] key);

    /**
     * Reads an item without its version. For an item whose version was never requested, some
     * servers must rewrite the item to assign one.
     */
    CompletableFuture<Found> readOnly(byte[] key);

    /** Stores an item. */
    CompletableFuture<Stored> store(byte[] key, Item item, If condition, long version);

    /**
     * Counts; null if there is no number. If there is another value, the stage fails with {@code
     * Refused}.
     */
    CompletableFuture<@Nullable Long> count(byte[] key, Edit.Count count);

    /** Deletes all items. */
    CompletableFuture<?> flush();

    /** Lists the keys. */
    CompletableFuture<Set<String>> keys();
}
