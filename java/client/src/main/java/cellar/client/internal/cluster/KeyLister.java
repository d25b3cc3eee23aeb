package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.Listing;
import cellar.client.internal.Stages;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.ListOperation;
import cellar.client.internal.wire.ListOperation.Walk;
import cellar.client.internal.wire.ReadOperation;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;

/** Lists the keys of all nodes. */
public final class KeyLister {
    private static final Duration LISTING_MAX = Duration.ofMinutes(1);
    private static final int CHECKED_AT_ONCE = 256;
    private static final int BUSY_ATTEMPTS_MAX = 50;
    private static final long BUSY_PAUSE_MS = 100;

    private KeyLister() {}

    /** Returns the keys of all nodes that are up. */
    public static CompletionStage<Set<String>> list(Cluster cluster, Listing listing) {
        List<CompletableFuture<Set<String>>> parts = new ArrayList<>();
        for (Endpoint endpoint : cluster.endpoints()) {
            if (!endpoint.isDown()) {
                CompletableFuture<Set<String>> fast = fast(endpoint);
                parts.add(
                        listing == Listing.FAST
                                ? fast
                                : fast.thenCompose(
                                        keys -> exact(endpoint, keys, cluster.alsoRead())));
            }
        }
        if (parts.isEmpty()) {
            return CompletableFuture.failedStage(
                    new CacheException.Connection("no node can be asked", null));
        }
        return Stages.all(parts).thenApply(sets -> union(sets, cluster));
    }

    private static Set<String> union(List<Set<String>> sets, Cluster cluster) {
        Set<String> all = new HashSet<>();
        sets.forEach(all::addAll);
        all.removeIf(cluster::isReserved);
        return all;
    }

    /** A server lists for one client at a time; other clients retry. */
    static CompletableFuture<Set<String>> fast(Endpoint endpoint) {
        return fast(endpoint, Walk.HASH, 1);
    }

    private static CompletableFuture<Set<String>> fast(Endpoint endpoint, Walk walk, int attempt) {
        return endpoint.submitAlone(new ListOperation(walk), LISTING_MAX)
                .handle(
                        (keys, failure) -> {
                            if (failure == null) {
                                return CompletableFuture.completedFuture(keys);
                            }
                            CacheException known = Stages.known(failure);
                            boolean busy = String.valueOf(known.getMessage()).startsWith("BUSY");
                            if (!busy
                                    && walk == Walk.HASH
                                    && known instanceof CacheException.Refused) {
                                return fast(endpoint, Walk.LISTS, 1);
                            }
                            if (!busy || attempt == BUSY_ATTEMPTS_MAX) {
                                return CompletableFuture.<Set<String>>failedFuture(known);
                            }
                            return CompletableFuture.supplyAsync(
                                            () -> fast(endpoint, walk, attempt + 1),
                                            CompletableFuture.delayedExecutor(
                                                    BUSY_PAUSE_MS, TimeUnit.MILLISECONDS))
                                    .thenCompose(again -> again);
                        })
                .thenCompose(stage -> stage);
    }

    private static CompletableFuture<Set<String>> exact(
            Endpoint endpoint, Set<String> keys, int also) {
        return check(endpoint, List.copyOf(keys), also, 0, new HashSet<>());
    }

    private static CompletableFuture<Set<String>> check(
            Endpoint endpoint, List<String> keys, int also, int from, Set<String> alive) {
        if (from >= keys.size()) {
            return CompletableFuture.completedFuture(alive);
        }
        List<String> part = keys.subList(from, Math.min(keys.size(), from + CHECKED_AT_ONCE));
        List<CompletableFuture<Boolean>> hits = new ArrayList<>();
        for (String key : part) {
            hits.add(
                    endpoint.submit(
                            new ReadOperation<>(
                                    Keys.bytes(key),
                                    ReadOperation.NO_VALUE | also,
                                    ReadOperation::hit)));
        }
        return Stages.all(hits)
                .thenCompose(
                        found -> {
                            for (int i = 0; i < part.size(); i++) {
                                if (found.get(i)) {
                                    alive.add(part.get(i));
                                }
                            }
                            return check(endpoint, keys, also, from + CHECKED_AT_ONCE, alive);
                        });
    }
}
