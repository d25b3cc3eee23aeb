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

/** The nodes of a cache: maps keys to nodes, and sends the further requests that a mode needs. */
public abstract class Cluster implements AutoCloseable {
    private final AtomicInteger generation = new AtomicInteger();

    /** Returns a number that changes when the home of the key changes, for {@link #lasts}. */
    public long stay(byte[] key) {
        return generation.get();
    }

    /** Whether the key of a {@link #stay} has had the same home since. */
    public boolean lasts(long stay) {
        return stay == generation.get();
    }

    /** Whether keys belong to slots and a node may report that it has {@link #lost} some. */
    public boolean hasSlots() {
        return false;
    }

    /** A node reports that it has lost these slots. */
    public void lost(Endpoint node, BitSet slots) {
        homesChanged();
    }

    /** From now on a key may have another home. */
    protected final void homesChanged() {
        generation.incrementAndGet();
    }

    /**
     * Whether a miss or failure at a key's home is not final, so that {@link #read} also asks other
     * nodes.
     */
    public boolean hasSecondChoice() {
        return false;
    }

    /** Whether one command may read several keys from a node. */
    public boolean takesManyAtOnce() {
        return true;
    }

    /** Returns the tracking port of a node; {@code otherwise} is the configured one. */
    public int trackingPort(Endpoint endpoint, int otherwise) {
        return otherwise;
    }

    /**
     * Returns the home node of {@code key}.
     *
     * @throws CacheException.Connection if there is none
     */
    public abstract Endpoint home(byte[] key);

    /** Returns all nodes. */
    public abstract List<Endpoint> endpoints();

    /** Reads an item; calls {@code read} once for each attempt. */
    public <R extends @Nullable Object> CompletionStage<R> read(
            byte[] key, Supplier<ReadOperation<R>> read) {
        return home(key).submit(read.get());
    }

    /** Reads an item and waits. */
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

    /** Sends a request to one node and waits. */
    public static <R extends @Nullable Object> R askNow(Endpoint node, Operation<R> operation) {
        node.call(operation);
        return result(operation);
    }

    /** Whether the client uses this key itself. */
    public boolean isReserved(String key) {
        return false;
    }

    /** Completes when {@link #home} may be called. */
    public CompletableFuture<@Nullable Void> ready() {
        return CompletableFuture.completedFuture(null);
    }

    /** Deletes everything; {@code command} does that on a node. */
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

    /** Returns what else a read must request, such as {@link ReadOperation#FLAGS}. */
    public int alsoRead() {
        return 0;
    }

    /** Returns the answer of a complete operation. */
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
