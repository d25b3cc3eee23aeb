package cellar.client.internal.local;

import cellar.client.internal.cluster.Cluster;
import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;

/** A way to be told of changes. */
interface Tracking extends AutoCloseable {
    /**
     * That changes of one key are told of since before it was read.
     *
     * @param source who tells
     * @param epoch the source's epoch; a copy of an earlier one may be old
     * @param stay of the key at its home in the cluster, from before that was looked up
     * @param ttl_ms what the item had left; -1 for ever, -2 if there was none
     */
    record Ticket(Source source, int epoch, long stay, long ttl_ms) {
        /** Whether nothing can have been missed since. */
        boolean isGood(Cluster cluster) {
            return cluster.lasts(stay) && source.epoch() == epoch && source.isAlive();
        }

        /** Whether it is never good again. */
        boolean isVoid(Cluster cluster) {
            return !cluster.lasts(stay) || source.epoch() != epoch;
        }
    }

    /** One connection on which changes are told. */
    interface Source {
        /** Changes when something may have been missed. */
        int epoch();

        /** Whether the connection is known to work. */
        boolean isAlive();
    }

    /** Asks to be told of changes of {@code key}; null if that is not possible at the moment. */
    CompletionStage<@Nullable Ticket> track(byte[] key);

    @Override
    void close();
}
