package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.cluster.CopyQueue.Pace;
import cellar.client.internal.cluster.Peer.If;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * Copies one item to one node, so that the node's item only becomes newer, never older.
 *
 * <p>It reads the node's item, decides, and stores on the condition that the node's item is
 * unchanged. A copy with an order is compared with the node's item. An item without an order, such
 * as a counter, is read from its home after the node was read, so it is newer than the node's item.
 */
final class Copier {
    private static final int ATTEMPTS_MAX = 64;

    private final Watch watch;

    Copier(Watch watch) {
        this.watch = watch;
    }

    /** Stores {@code copy} unless the node has a newer item. */
    CompletableFuture<@Nullable Void> deliver(Replica to, byte[] key, Item copy) {
        return deliver(to, key, copy, 1);
    }

    private CompletableFuture<@Nullable Void> deliver(
            Replica to, byte[] key, Item copy, int attempt) {
        return to.copy()
                .read(key)
                .thenCompose(
                        found -> {
                            Integer later = found.compare(copy);
                            if (later == null && !isHome(to, key)) {
                                return pull(to, key, attempt)
                                        .thenCompose(
                                                known ->
                                                        isHome(to, key)
                                                                ? deliver(
                                                                        to,
                                                                        key,
                                                                        copy,
                                                                        next(attempt))
                                                                : done());
                            }
                            if (later != null && later <= 0) {
                                return done();
                            }
                            return store(to, key, copy, found)
                                    .thenCompose(
                                            stored ->
                                                    stored.done()
                                                            ? done()
                                                            : deliver(
                                                                    to, key, copy, next(attempt)));
                        });
    }

    /**
     * Whether {@code to} is the key's home. It may have become the home while the copy was on its
     * way. Then an item without an order in the same view came from the filling, and the copy is
     * newer.
     */
    private boolean isHome(Replica to, byte[] key) {
        return watch.homes().home(Homes.hash(key)) == to;
    }

    /** Stores the item of the key's home; false if the home has none. */
    CompletableFuture<Boolean> pull(Replica to, byte[] key) {
        return pull(to, key, 1);
    }

    private CompletableFuture<Boolean> pull(Replica to, byte[] key, int attempt) {
        long hash = Homes.hash(key);
        return to.copy()
                .read(key)
                .thenCompose(
                        there -> {
                            Homes homes = watch.homes();
                            Replica home = homes.home(hash);
                            if (home == null) {
                                throw moved();
                            }
                            if (home == to) {
                                return CompletableFuture.completedFuture(true);
                            }
                            // A new home may lack the last changes of the home before it.
                            if (watch.settlesIn_ms(hash) > 0) {
                                throw moved();
                            }
                            return source(home, home.home().read(key))
                                    .thenCompose(
                                            found -> pulled(to, key, home, homes, there, found))
                                    .thenCompose(
                                            known ->
                                                    known == null
                                                            ? pull(to, key, next(attempt))
                                                            : CompletableFuture.completedFuture(
                                                                    known));
                        });
    }

    /** Whether the home had the item; null if the node's item has changed meanwhile. */
    private CompletableFuture<@Nullable Boolean> pulled(
            Replica to, byte[] key, Replica home, Homes homes, Found there, Found found) {
        if (!watch.isHome(home, homes, Homes.hash(key))) {
            throw moved();
        }
        Item copy = found.copy(homes.numberOf(home));
        if (copy == null) {
            return CompletableFuture.completedFuture(false);
        }
        if (isAhead(there, copy)) {
            return CompletableFuture.completedFuture(true);
        }
        return store(to, key, copy, there)
                .thenApply(stored -> stored.done() ? (Boolean) true : null);
    }

    /**
     * Whether the node has a change that its home still lacks: both items are copies from the same
     * earlier home, and the node's is not older.
     */
    private static boolean isAhead(Found there, Item copy) {
        Item item = there.item();
        return item != null
                && item.ordered()
                && copy.ordered()
                && item.home() == copy.home()
                && Long.compareUnsigned(item.order(), copy.order()) >= 0;
    }

    /**
     * Stores the item of the key's home if the node has none; the usual case when a node is filled.
     * The version is not requested, so the copy has no order, unless the home's item is itself an
     * ordered copy.
     */
    CompletableFuture<@Nullable Void> fill(Replica to, Replica home, byte[] key) {
        int number = watch.homes().numberOf(home);
        return source(home, home.home().readOnly(key))
                .thenCompose(
                        found -> {
                            Item copy = found.copy(number);
                            if (copy == null) {
                                return done();
                            }
                            return store(to, key, copy, Found.NOTHING)
                                    .thenCompose(
                                            stored -> stored.done() ? done() : queued(to, key));
                        });
    }

    /** Copies the item again when its home is settled. */
    private static CompletableFuture<@Nullable Void> queued(Replica to, byte[] key) {
        return to.queue().add(key, null, Pace.AT_ONCE).thenCompose(known -> done());
    }

    /**
     * Passes on the home's item. A failure of the home is not a fault of the node that is copied
     * to.
     */
    private CompletableFuture<Found> source(Replica home, CompletableFuture<Found> read) {
        return read.handle(
                (found, failure) -> {
                    if (failure == null) {
                        return found;
                    }
                    if (Replica.isNodesFault(failure)) {
                        watch.suspect(home);
                    }
                    throw moved();
                });
    }

    private static CompletableFuture<Peer.Stored> store(
            Replica to, byte[] key, Item item, Found there) {
        If condition = there.item() == null ? If.ABSENT : If.SAME;
        return to.copy().store(key, item, condition, there.version());
    }

    private static int next(int attempt) {
        if (attempt == ATTEMPTS_MAX) {
            throw new CacheException.Overloaded("an item changes faster than it can be copied");
        }
        return attempt + 1;
    }

    /** Not a fault of the node: the copy has to be made from another home. */
    private static CacheException moved() {
        return new CacheException.Overloaded("the homes are about to change");
    }

    private static CompletableFuture<@Nullable Void> done() {
        return CompletableFuture.completedFuture(null);
    }
}
