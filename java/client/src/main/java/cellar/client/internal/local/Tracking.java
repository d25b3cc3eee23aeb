package cellar.client.internal.local;

import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;

/** A way to be told of changes. */
interface Tracking extends AutoCloseable {
    /**
     * That changes of one key are told of since before it was read.
     *
     * @param source who tells
     * @param epoch the source's epoch; a copy of an earlier one may be old
     * @param generation of the cluster when the key's home was looked up
     * @param ttl_ms what the item had left; -1 for ever, -2 if there was none
     */
    record Ticket(Source source, int epoch, int generation, long ttl_ms) {
        /** Whether nothing can have been missed since, if the cluster is in {@code now}. */
        boolean isGood(int now) {
            return generation == now && source.epoch() == epoch && source.isAlive();
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
