package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.cluster.Peer.If;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * Brings one item to one node, so that what lies there only becomes later, never earlier.
 *
 * <p>Whoever copies reads what the node has, decides, and stores only if that has not changed
 * meanwhile. A copy that knows its order is compared with what was found. What has no order, a
 * counter say, is read from its home after the node was read: then it is later than whatever the
 * node had.
 */
final class Copier {
    private static final int ATTEMPTS_MAX = 64;

    private final Watch watch;

    Copier(Watch watch) {
        this.watch = watch;
    }

    /** Stores {@code copy} unless something later is there. */
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
                            if (later == null) {
                                return pull(to, key, attempt).thenCompose(known -> done());
                            }
                            if (later <= 0) {
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

    /** Stores what the item's home has; false if it has nothing. */
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

    /** Whether the home had it; null if the node has changed meanwhile. */
    private CompletableFuture<@Nullable Boolean> pulled(
            Replica to, byte[] key, Replica home, Homes homes, Found there, Found found) {
        if (!watch.isHome(home, homes, Homes.hash(key))) {
            throw moved();
        }
        Item copy = found.copy(homes.numberOf(home));
        if (copy == null) {
            return CompletableFuture.completedFuture(false);
        }
        return store(to, key, copy, there)
                .thenApply(stored -> stored.done() ? (Boolean) true : null);
    }

    /**
     * Stores what the item's home has if the node has nothing; a filling's usual case. The home
     * only reads, so such a copy has no order of its own unless it is one of a copy.
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
                                            stored ->
                                                    stored.done()
                                                            ? done()
                                                            : pull(to, key)
                                                                    .thenCompose(had -> done()));
                        });
    }

    /** What the home has; if it fails, that is not the fault of the node that is copied to. */
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

    /** Not a node's fault: the copy has to be made from another home. */
    private static CacheException moved() {
        return new CacheException.Overloaded("the homes are about to change");
    }

    private static CompletableFuture<@Nullable Void> done() {
        return CompletableFuture.completedFuture(null);
    }
}
