package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.wire.DeleteOperation;
import cellar.client.internal.wire.Expiry;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.LineOperation;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * Copies all items of a trusted node to one that came back, each with the time it has left.
 *
 * <p>Copies are added, never set, so they do not overwrite a change that arrived meanwhile; a key
 * that was removed meanwhile is removed once more behind its copy. What the source itself was still
 * to be told when the filling began is waited for, since the target was not told of it. If the
 * source is lost meanwhile, what was read from it may be old, and the filling fails.
 */
final class Filling {
    private static final int AT_ONCE = 128;
    private static final int WANTED = ReadOperation.FLAGS | ReadOperation.TTL;

    private final ReplicatedCluster cluster;
    private final Replica target;
    private volatile boolean stopped;
    private int copied;

    Filling(ReplicatedCluster cluster, Replica target) {
        this.cluster = cluster;
        this.target = target;
    }

    void stop() {
        stopped = true;
    }

    /** Whether nobody waits for it any more. */
    boolean isStopped() {
        return stopped;
    }

    /** Completes with the number of copies. */
    CompletableFuture<Integer> run() {
        Replica source = cluster.trusted(target);
        if (source == null) {
            return CompletableFuture.completedFuture(0);
        }
        int losses = source.losses();
        if (!source.isTrusted()) {
            return CompletableFuture.failedFuture(lost(source));
        }
        return flushed()
                .thenCompose(line -> source.drained())
                .thenCompose(drained -> KeyLister.fast(source.endpoint()))
                .thenCompose(keys -> copyAll(source.endpoint(), keys))
                .thenCompose(
                        done ->
                                source.losses() == losses
                                        ? CompletableFuture.completedFuture(copied)
                                        : CompletableFuture.failedFuture(lost(source)));
    }

    private static CacheException lost(Replica node) {
        return new CacheException.Connection(node.endpoint().name() + " was lost meanwhile", null);
    }

    /** What the target holds may be old, even if its process is new: changes may have come late. */
    private CompletableFuture<String> flushed() {
        return target.endpoint().submit(new LineOperation("flush_all", "flush_all\r\n"));
    }

    private CompletableFuture<?> copyAll(Endpoint source, Set<String> keys) {
        return copyFrom(source, List.copyOf(keys), 0);
    }

    private CompletableFuture<?> copyFrom(Endpoint source, List<String> keys, int from) {
        if (from >= keys.size()) {
            return CompletableFuture.completedFuture(null);
        }
        if (stopped) {
            return CompletableFuture.failedFuture(lost(target));
        }
        List<CompletableFuture<@Nullable Void>> part = new ArrayList<>();
        for (String key : keys.subList(from, Math.min(keys.size(), from + AT_ONCE))) {
            part.add(copy(source, Keys.bytes(key)));
        }
        return Stages.all(part).thenCompose(done -> copyFrom(source, keys, from + AT_ONCE));
    }

    private CompletableFuture<@Nullable Void> copy(Endpoint source, byte[] key) {
        ReadOperation<Boolean> read = new ReadOperation<>(key, WANTED, ReadOperation::hit);
        return source.submit(read)
                .thenCompose(
                        hit -> {
                            byte[] bytes = read.bytes();
                            if (!hit || bytes == null || !read.knowsTtl()) {
                                return CompletableFuture.completedFuture(null);
                            }
                            return add(key, bytes, read);
                        });
    }

    private CompletableFuture<@Nullable Void> add(byte[] key, byte[] bytes, ReadOperation<?> read) {
        return target.endpoint()
                .submit(
                        new StoreOperation(
                                key,
                                bytes,
                                read.flags(),
                                Expiry.seconds(read.ttl_s()),
                                StoreOperation.Mode.ADD,
                                0))
                .thenCompose(
                        outcome -> {
                            copied++;
                            if (!target.wasRemoved(key)) {
                                return CompletableFuture.completedFuture(null);
                            }
                            return target.endpoint()
                                    .submit(new DeleteOperation(key, 0))
                                    .thenApply(found -> null);
                        });
    }
}
