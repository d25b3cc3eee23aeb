package cellar.client.internal.local;

import cellar.client.internal.cluster.Cluster;
import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;

/** Server-assisted invalidation of local copies. */
interface Tracking extends AutoCloseable {
    /**
     * Shows that a key has been tracked since before it was read.
     *
     * @param source the connection that receives the invalidations
     * @param epoch of the source; a copy of an earlier epoch may be stale
     * @param stay of the key at its home in the cluster, read before the home was looked up
     * @param ttl_ms remaining TTL of the item; -1 if it does not expire, -2 if there is none
     */
    record Ticket(Source source, int epoch, long stay, long ttl_ms) {
        /** Whether no invalidation can have been lost since. */
        boolean isGood(Cluster cluster) {
            return cluster.lasts(stay) && source.epoch() == epoch && source.isAlive();
        }

        /** Whether it can never be good again. */
        boolean isVoid(Cluster cluster) {
            return !cluster.lasts(stay) || source.epoch() != epoch;
        }
    }

    /** A connection that receives invalidations. */
    interface Source {
        /** Returns a number that changes when invalidations may have been lost. */
        int epoch();

        /** Whether the connection is known to work. */
        boolean isAlive();
    }

    /**
     * Requests tracking of {@code key}; the result is null if that is not possible at the moment.
     */
    CompletionStage<@Nullable Ticket> track(byte[] key);

    @Override
    void close();
}
