package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.wire.Expiry;
import cellar.client.internal.wire.Operation;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Every node holds everything.
 *
 * <p>Each key has an order of the nodes, drawn from its hash, so that keys spread and all clients
 * agree. The first trusted node in that order is the key's home: it is read, and changed before the
 * caller gets an answer; the others are told of what came out through a {@link ReplicaQueue}. A
 * counter is thus counted on one node only. A read that fails goes to the next node. A read that
 * misses does too, and what it finds there is added at home with the time it has left. A server
 * without meta commands does not tell that time: nothing is copied from it, lest it stays for ever.
 *
 * <p>A client reads its own writes: if the home changes, it waits for those still on their way.
 */
public final class ReplicatedCluster extends Cluster {
    private static final long RETRY_MS = 500;
    private static final long CLOSE_MS_MAX = 2000;

    private final List<Replica> replicas;
    private final ReentrantReadWriteLock spreading = new ReentrantReadWriteLock();

    /** Copies on {@code endpoints}; at most {@code queuedMax} changes wait for each. */
    public ReplicatedCluster(List<Endpoint> endpoints, int queuedMax) {
        replicas =
                endpoints.stream().map(endpoint -> new Replica(endpoint, this, queuedMax)).toList();
    }

    @Override
    public Endpoint home(byte[] key) {
        return choose(key, null).endpoint();
    }

    /** The first trusted node but {@code tried}; else any that is up; else any. */
    private Replica choose(byte[] key, @Nullable Replica tried) {
        long hash = hash(key);
        Replica best = null;
        long bestScore = 0;
        for (int i = 0; i < replicas.size(); i++) {
            Replica replica = replicas.get(i);
            if (replica == tried) {
                continue;
            }
            long score = score(hash, i) >>> 2;
            score |= replica.isTrusted() ? 1L << 62 : 0;
            score |= replica.endpoint().isDown() ? 0 : 1L << 61;
            if (best == null || score > bestScore) {
                best = replica;
                bestScore = score;
            }
        }
        return best == null ? replicas.get(0) : best;
    }

    /** The second node to ask, if there is one that is trusted. */
    private @Nullable Replica second(byte[] key, Replica first) {
        Replica next = choose(key, first);
        return next != first && next.isTrusted() ? next : null;
    }

    private static long hash(byte[] key) {
        long hash = 0xcbf29ce484222325L;
        for (byte b : key) {
            hash = (hash ^ b & 0xff) * 0x100000001b3L;
        }
        return hash;
    }

    private static long score(long hash, int index) {
        long mixed = (hash + 0x9e3779b97f4a7c15L * (index + 1)) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94d049bb133111ebL;
        return mixed ^ mixed >>> 31;
    }

    @Override
    public List<Endpoint> endpoints() {
        return replicas.stream().map(Replica::endpoint).toList();
    }

    /** A trusted node that is not {@code target}; null if there is none. */
    @Nullable Replica trusted(Replica target) {
        for (Replica replica : replicas) {
            if (replica != target && replica.isTrusted()) {
                return replica;
            }
        }
        return null;
    }

    @Override
    public boolean hasSecondChoice() {
        return true;
    }

    /** A node is trusted now, or is not any more. */
    void trustChanged() {
        homesChanged();
    }

    /** Whether all nodes are trusted; for tests. */
    public boolean isWhole() {
        return replicas.stream().allMatch(Replica::isTrusted);
    }

    void later(Runnable task) {
        replicas.get(0).endpoint().loop().schedule(task, RETRY_MS, TimeUnit.MILLISECONDS);
    }

    @Override
    public int alsoRead() {
        return ReadOperation.FLAGS | ReadOperation.TTL;
    }

    // Reading.

    @Override
    public <R extends @Nullable Object> CompletionStage<R> read(
            byte[] key, Supplier<ReadOperation<R>> read) {
        Replica first = choose(key, null);
        ReadOperation<R> operation = read.get();
        return attempt(first, key, operation)
                .handle((answer, failure) -> operation)
                .thenCompose(
                        done -> {
                            Replica next = isAnswer(done) ? null : second(key, first);
                            return next == null ? done : readSecond(key, first, done, next, read);
                        });
    }

    private <R extends @Nullable Object> CompletionStage<R> readSecond(
            byte[] key,
            Replica first,
            ReadOperation<R> missed,
            Replica next,
            Supplier<ReadOperation<R>> read) {
        ReadOperation<R> operation = read.get();
        return attempt(next, key, operation)
                .handle((answer, failure) -> operation)
                .thenCompose(done -> settle(key, first, missed, done));
    }

    private static <R extends @Nullable Object> CompletableFuture<R> attempt(
            Replica replica, byte[] key, ReadOperation<R> operation) {
        CompletableFuture<@Nullable Void> own = replica.settled(key);
        if (own == null) {
            return replica.endpoint().submit(operation);
        }
        return own.thenCompose(done -> replica.endpoint().submit(operation));
    }

    @Override
    public <R extends @Nullable Object> R readNow(byte[] key, Supplier<ReadOperation<R>> read) {
        Replica first = choose(key, null);
        ReadOperation<R> operation = read.get();
        call(first, key, operation);
        Replica next = isAnswer(operation) ? null : second(key, first);
        if (next == null) {
            return result(operation);
        }
        ReadOperation<R> other = read.get();
        call(next, key, other);
        return result(settle(key, first, operation, other));
    }

    private static void call(Replica replica, byte[] key, ReadOperation<?> operation) {
        CompletableFuture<@Nullable Void> own = replica.settled(key);
        if (own != null) {
            waitFor(own, replica.endpoint().settings().timeout().toMillis());
        }
        replica.endpoint().call(operation);
    }

    /** A miss may be a hit elsewhere, and so may a node that does not answer. */
    private static boolean isAnswer(ReadOperation<?> done) {
        if (!done.isCompletedExceptionally()) {
            return !done.isMiss();
        }
        return !isNodesFault(done);
    }

    private static boolean isNodesFault(Operation<?> done) {
        Throwable failure = done.handle((answer, cause) -> cause).join();
        CacheException known = Stages.known(failure);
        return known instanceof CacheException.Connection
                || known instanceof CacheException.Timeout
                || known instanceof CacheException.Protocol;
    }

    /** Which of two answers counts; repairs the first node if only the second has the item. */
    private static <R extends @Nullable Object> ReadOperation<R> settle(
            byte[] key, Replica first, ReadOperation<R> one, ReadOperation<R> other) {
        boolean missed = !one.isCompletedExceptionally();
        if (other.isCompletedExceptionally() || missed && other.isMiss()) {
            return missed ? one : other;
        }
        byte[] bytes = other.bytes();
        boolean whole = bytes != null && other.knowsTtl() && !other.stale();
        if (missed && whole && first.isTrusted()) {
            first.endpoint()
                    .submit(
                            new StoreOperation(
                                    key,
                                    bytes,
                                    other.flags(),
                                    Expiry.seconds(other.ttl_s()),
                                    StoreOperation.Mode.ADD,
                                    0));
        }
        return other;
    }

    // Changing.

    @Override
    public <R extends @Nullable Object> CompletionStage<R> write(Request<R> request) {
        Replica first = choose(request.key(), null);
        Operation<R> operation = request.operation().get();
        return first.endpoint()
                .submit(operation)
                .handle((answer, failure) -> failure)
                .thenCompose(
                        failure -> {
                            Replica next =
                                    failure == null ? null : standIn(request, first, operation);
                            if (next == null) {
                                return spread(request, first, operation);
                            }
                            Operation<R> again = request.operation().get();
                            return next.endpoint()
                                    .submit(again)
                                    .handle((answer, failed) -> again)
                                    .thenCompose(done -> spread(request, next, done));
                        });
    }

    @Override
    public <R extends @Nullable Object> R writeNow(Request<R> request) {
        Replica first = choose(request.key(), null);
        Operation<R> operation = request.operation().get();
        first.endpoint().call(operation);
        if (operation.isCompletedExceptionally()) {
            Replica next = standIn(request, first, operation);
            if (next != null) {
                first = next;
                operation = request.operation().get();
                first.endpoint().call(operation);
            }
        }
        CompletableFuture<R> spread = spread(request, first, operation).toCompletableFuture();
        if (!spread.isDone()) {
            waitFor(spread, first.endpoint().settings().timeout().toMillis());
        }
        return result(operation);
    }

    /**
     * Who is asked after {@code first} has failed; null for nobody. The first may have the change
     * or not, so it is not believed any more.
     */
    private @Nullable Replica standIn(Request<?> request, Replica first, Operation<?> failed) {
        if (!isNodesFault(failed)) {
            return null;
        }
        Replica next = second(request.key(), first);
        if (next != null) {
            first.distrust("a change was not answered");
        }
        return next != null && request.again() ? next : null;
    }

    /** Tells the other copies; completes at once, or after them if the item has been removed. */
    private <R extends @Nullable Object> CompletionStage<R> spread(
            Request<R> request, Replica home, Operation<R> done) {
        if (done.isCompletedExceptionally()) {
            return done;
        }
        Change change = request.effect().apply(done, done.join());
        if (change == null) {
            return done;
        }
        List<CompletableFuture<@Nullable Void>> told = new ArrayList<>(replicas.size());
        spreading.readLock().lock();
        try {
            for (Replica replica : replicas) {
                if (replica != home) {
                    told.add(replica.change(request.key(), change));
                }
            }
        } finally {
            spreading.readLock().unlock();
        }
        return change.removes() ? Stages.all(told).thenCompose(all -> done) : done;
    }

    /** Runs {@code task} while no change is half spread: each has reached all copies or none. */
    <R extends @Nullable Object> R betweenChanges(Supplier<R> task) {
        spreading.writeLock().lock();
        try {
            return task.get();
        } finally {
            spreading.writeLock().unlock();
        }
    }

    private static void waitFor(CompletableFuture<?> stage, long patience_ms) {
        try {
            stage.get(patience_ms, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            // Whoever waits goes on with what is there.
            return;
        }
    }

    /** Changes that wait are sent, as far as their nodes can be reached. */
    @Override
    public void close() {
        CompletableFuture<?> drained =
                CompletableFuture.allOf(
                        replicas.stream().map(Replica::drained).toArray(CompletableFuture[]::new));
        waitFor(drained, CLOSE_MS_MAX);
        replicas.forEach(replica -> replica.endpoint().close());
    }
}
