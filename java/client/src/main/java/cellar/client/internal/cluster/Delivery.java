package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.CacheMetrics;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/** Delivers the queue of one node, and reports failures to the {@link Watch}. */
final class Delivery implements CopyQueue.Target {
    private final Watch watch;
    private final String name;
    private final CacheMetrics metrics;
    private final String address;

    /** For the node {@code name}; {@code metrics} uses its address. */
    Delivery(Watch watch, String name, CacheMetrics metrics, String address) {
        this.watch = watch;
        this.name = name;
        this.metrics = metrics;
        this.address = address;
    }

    @Override
    public CompletableFuture<@Nullable Void> deliver(byte[] key, @Nullable Item copy) {
        Replica to = watch.replica(name);
        if (to == null) {
            return CompletableFuture.completedFuture(null);
        }
        return copy == null
                ? watch.copier().pull(to, key).thenApply(Delivery::pulled)
                : watch.copier().deliver(to, key, copy);
    }

    private static @Nullable Void pulled(boolean had) {
        if (!had) {
            throw new CacheException.Refused("the home has nothing any more");
        }
        return null;
    }

    @Override
    public void waiting(int count) {
        metrics.replicating(address, count);
    }

    @Override
    public void full(String why) {
        metrics.overloaded(address, "replication");
        Replica to = watch.replica(name);
        if (to != null) {
            watch.lost(to, why);
        }
    }

    @Override
    public void undelivered(long for_ms, String why) {
        Replica to = watch.replica(name);
        if (to != null) {
            watch.undelivered(to, for_ms, why);
        }
    }
}
