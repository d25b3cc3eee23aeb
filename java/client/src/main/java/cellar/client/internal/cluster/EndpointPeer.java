package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.wire.CountOperation;
import cellar.client.internal.wire.Expiry;
import cellar.client.internal.wire.LineOperation;
import cellar.client.internal.wire.Mark;
import cellar.client.internal.wire.Mark.Kind;
import cellar.client.internal.wire.Operation;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation;
import cellar.client.internal.wire.StoreOperation.Mode;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/** A {@link Peer} over the connections of an {@link Endpoint}. */
record EndpointPeer(Endpoint endpoint, Way way) implements Peer {
    /** How requests are sent. */
    enum Way {
        /** The caller does not wait. */
        SUBMITTING,
        /**
         * The calling thread waits; the stage of a request for one item is complete when it is
         * returned.
         */
        WAITING
    }

    private static final int ITEM = ReadOperation.FLAGS | ReadOperation.TTL | ReadOperation.MARKED;
    private static final int WANTED = ITEM | ReadOperation.VERSION;
    private static final byte[] NOTHING = new byte[0];

    /** Sends requests without waiting. */
    EndpointPeer(Endpoint endpoint) {
        this(endpoint, Way.SUBMITTING);
    }

    /** Returns the same node for callers that wait. */
    EndpointPeer waiting() {
        return new EndpointPeer(endpoint, Way.WAITING);
    }

    private <R extends @Nullable Object> CompletableFuture<R> ask(Operation<R> operation) {
        if (way == Way.SUBMITTING) {
            return endpoint.submit(operation);
        }
        endpoint.call(operation);
        return operation;
    }

    @Override
    public CompletableFuture<Found> read(byte[] key) {
        return read(key, WANTED);
    }

    @Override
    public CompletableFuture<Found> readOnly(byte[] key) {
        return read(key, ITEM);
    }

    private CompletableFuture<Found> read(byte[] key, int wanted) {
        return ask(new ReadOperation<>(key, wanted, EndpointPeer::found)).thenApply(this::checked);
    }

    /** The first asynchronous connection detects the dialect of the server. */
    private Found checked(Found found) {
        if (way == Way.SUBMITTING && !endpoint.dialect().meta()) {
            throw new CacheException.Configuration(
                    "replicated nodes need the meta commands, " + endpoint.name() + " has none",
                    null);
        }
        return found;
    }

    /** Converts a read of the value, flags, version and TTL. */
    static Found found(ReadOperation<?> read) {
        if (!read.hit() && !read.isGone()) {
            return Found.NOTHING;
        }
        byte[] bytes = read.bytes();
        Item item =
                new Item(
                        Mark.kind(read.marked()),
                        bytes == null ? NOTHING : bytes,
                        read.flags(),
                        Expiry.seconds(read.ttl_s()),
                        Mark.view(read.marked()),
                        read.isOrdered(),
                        read.home(),
                        read.order());
        boolean leased = (read.won() || read.waiting()) && item.value().length == 0;
        return new Found(item, read.version(), leased && item.kind() == Kind.VALUE);
    }

    @Override
    public CompletableFuture<Stored> store(byte[] key, Item item, If condition, long version) {
        StoreOperation store = storing(key, item, condition, version);
        return ask(store).thenApply(outcome -> new Stored(outcome, store.newVersion()));
    }

    private static StoreOperation storing(byte[] key, Item item, If condition, long version) {
        Mode mode =
                switch (condition) {
                    case ANY -> Mode.SET;
                    case ABSENT -> Mode.ADD;
                    case SAME -> Mode.CAS;
                };
        return new StoreOperation(
                        key, item.markedBytes(), item.markedFlags(), item.expiry(), mode, version)
                .askVersion();
    }

    @Override
    public CompletableFuture<@Nullable Long> count(byte[] key, Edit.Count count) {
        return ask(
                new CountOperation(key, count.by(), count.down(), count.initial(), count.expiry()));
    }

    @Override
    public CompletableFuture<?> flush() {
        return ask(new LineOperation("flush_all", "flush_all\r\n"))
                .thenAccept(
                        line -> {
                            if (!line.equals("OK")) {
                                throw new CacheException.Refused(line);
                            }
                        });
    }

    @Override
    public CompletableFuture<Set<String>> keys() {
        return KeyLister.fast(endpoint);
    }
}
