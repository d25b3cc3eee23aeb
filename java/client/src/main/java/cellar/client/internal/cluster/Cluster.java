package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.wire.LineOperation;
import cellar.client.internal.wire.Operation;
import cellar.client.internal.wire.ReadOperation;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The nodes of a cache: which one a key belongs to, and what else a request makes necessary. */
public abstract class Cluster implements AutoCloseable {
    private final AtomicInteger generation = new AtomicInteger();

    /** Which home a key has, the how many-th: what {@link #lasts} compares. */
    public long stay(byte[] key) {
        return generation.get();
    }

    /** Whether the key of a {@link #stay} can have had no other home since. */
    public boolean lasts(long stay) {
        return stay == generation.get();
    }

    /** Whether nodes have slots, and may tell that they have {@link #lost} some. */
    public boolean hasSlots() {
        return false;
    }

    /** A node tells that it has lost these slots. */
    public void lost(Endpoint node, BitSet slots) {
        homesChanged();
    }

    /** From now on a key may have another home. */
    protected final void homesChanged() {
        generation.incrementAndGet();
    }

    /** A miss or failure at a key's home is no answer yet: {@link #read} asks elsewhere too. */
    public boolean hasSecondChoice() {
        return false;
    }

    /** Whether a node may be asked for several keys by one command. */
    public boolean takesManyAtOnce() {
        return true;
    }

    /** Where a node tells of changes, if not at the port {@code otherwise}. */
    public int trackingPort(Endpoint endpoint, int otherwise) {
        return otherwise;
    }

    /**
     * The node that is asked about {@code key}.
     *
     * @throws CacheException.Connection if there is none
     */
    public abstract Endpoint home(byte[] key);

    /** All nodes. */
    public abstract List<Endpoint> endpoints();

    /** Reads; {@code read} is called once for each attempt. */
    public <R extends @Nullable Object> CompletionStage<R> read(
            byte[] key, Supplier<ReadOperation<R>> read) {
        return home(key).submit(read.get());
    }

    /** Reads and waits. */
    public <R extends @Nullable Object> R readNow(byte[] key, Supplier<ReadOperation<R>> read) {
        return askNow(home(key), read.get());
    }

    /** Changes an item. */
    public <R extends @Nullable Object> CompletionStage<R> write(Request<R> request) {
        return home(request.key()).submit(request.operation().get());
    }

    /** Changes an item and waits. */
    public <R extends @Nullable Object> R writeNow(Request<R> request) {
        return askNow(home(request.key()), request.operation().get());
    }

    /** Asks one node and waits. */
    public static <R extends @Nullable Object> R askNow(Endpoint node, Operation<R> operation) {
        node.call(operation);
        return result(operation);
    }

    /** Whether a key is none of the callers'. */
    public boolean isReserved(String key) {
        return false;
    }

    /** Completes when {@link #home} may be asked. */
    public CompletableFuture<@Nullable Void> ready() {
        return CompletableFuture.completedFuture(null);
    }

    /** Removes everything; {@code command} does that at a node. */
    public CompletionStage<@Nullable Void> flush(String command) {
        List<CompletableFuture<@Nullable Void>> parts = new ArrayList<>();
        for (Endpoint endpoint : endpoints()) {
            LineOperation flush = new LineOperation("flush_all", command + "\r\n");
            parts.add(
                    endpoint.submit(flush)
                            .thenAccept(
                                    line -> {
                                        if (!line.equals("OK")) {
                                            throw new CacheException.Refused(line);
                                        }
                                    }));
        }
        return Stages.all(parts).thenApply(done -> null);
    }

    /** What else has to be read beside the value, {@link ReadOperation#FLAGS} and so on. */
    public int alsoRead() {
        return 0;
    }

    /** The answer of a complete operation. */
    static <R extends @Nullable Object> R result(Operation<R> operation) {
        try {
            return operation.join();
        } catch (CompletionException e) {
            if (e.getCause() instanceof CacheException known) {
                throw known;
            }
            throw e;
        }
    }

    @Override
    public abstract void close();
}
