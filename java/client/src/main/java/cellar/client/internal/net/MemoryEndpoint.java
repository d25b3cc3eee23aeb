package cellar.client.internal.net;

import cellar.client.CacheException;
import cellar.client.Node;
import cellar.client.internal.wire.Dialect;
import cellar.client.internal.wire.In;
import cellar.client.internal.wire.Operation;
import cellar.client.internal.wire.Out;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongSupplier;

/** A node without a server: a {@link MemoryStore} executes requests before they return. */
public final class MemoryEndpoint extends Endpoint {
    private static final Dialect META = new Dialect(true, false, false, "", false);

    private final MemoryStore store;
    private final LongSupplier ticker;

    /** Sends requests to {@code store}; items expire by {@code ticker}, in nanoseconds. */
    public MemoryEndpoint(MemoryStore store, LongSupplier ticker, Settings settings, Loops loops) {
        super(Node.of("in-memory", Node.PORT), settings, loops);
        this.store = store;
        this.ticker = ticker;
    }

    @Override
    void send(Operation<?> operation, long deadline_ns) {
        if (isClosed()) {
            operation.completeExceptionally(new CacheException.Closed());
            return;
        }
        Out request = new Out();
        operation.encode(request, META);
        In answers = new In();
        store.execute(request, ticker.getAsLong(), answers);
        if (operation.decode(answers, META)) {
            operation.finish();
        } else {
            operation.completeExceptionally(
                    new CacheException.Protocol(operation.name() + " was not answered"));
        }
    }

    @Override
    void sendAndWait(Operation<?> operation, long deadline_ns) {
        send(operation, deadline_ns);
    }

    @Override
    public <R> CompletableFuture<R> submitAlone(Operation<R> operation, Duration timeout) {
        send(operation, 0);
        return operation;
    }

    @Override
    public Dialect dialect() {
        return META;
    }
}
