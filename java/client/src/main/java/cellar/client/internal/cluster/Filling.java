package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import cellar.client.internal.cluster.View.State;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.Mark.Kind;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Copies everything to a node that has come back.
 *
 * <p>One client does it: the one that holds the claim, which is stored on the node. It waits until
 * no client trusts the node any more and the node has executed its earlier requests. It empties the
 * node and publishes that the node is being filled. It waits until all clients copy their changes
 * to the node, and copies each item from its home. Then the node is in.
 */
final class Filling {
    private static final Logger LOG = LoggerFactory.getLogger(Filling.class);
    private static final int AT_ONCE = 128;
    private static final long CLAIM_S = 5;
    private static final long CLAIM_MS = 1_000;

    private final Watch watch;
    private final Replica target;
    private final long begun_ms;
    private final Item claim;
    private final boolean fromNothing;
    private boolean requested;
    private int number;
    private int copied;

    Filling(Watch watch, Replica target) {
        this.watch = watch;
        this.target = target;
        this.begun_ms = watch.ticks().now_ms();
        this.fromNothing = watch.isOrphaned();
        byte[] name = watch.name().getBytes(StandardCharsets.US_ASCII);
        this.claim = Item.of(Kind.VALUE, name, 0, CLAIM_S);
    }

    void start() {
        number = watch.homes().view().number(target.name());
        long wait_ms = watch.timing().pause() + watch.timing().settle();
        claimed()
                .thenCompose(mine -> mine ? told() : no())
                .thenCompose(mine -> after(wait_ms, mine))
                .thenCompose(mine -> mine ? stillHolds() : no())
                .thenCompose(mine -> step(mine, () -> target.copy().flush()))
                .thenCompose(mine -> mine ? claimed() : no())
                .thenCompose(mine -> mine && holds() ? announced() : no())
                .thenCompose(mine -> after(watch.timing().pause(), mine))
                .thenCompose(mine -> mine ? copies() : no())
                .whenComplete(this::ended);
    }

    private static CompletableFuture<Boolean> no() {
        return CompletableFuture.completedFuture(false);
    }

    /**
     * Completes when all other nodes have the view in which this node is out and its filling is
     * requested. One lease later no client trusts the node, and a client that does not list it has
     * refused.
     */
    private CompletableFuture<Boolean> told() {
        requested = true;
        watch.adopt(watch.homes().view().requesting(target.name()));
        return watch.publisher().publish().thenApply(done -> holds());
    }

    /** Whether no client has changed the node's state meanwhile or refused the request. */
    private boolean holds() {
        View view = watch.homes().view();
        return !watch.isClosed()
                && view.number(target.name()) == number
                && view.isRequested(target.name())
                && watch.replica(target.name()) == target;
    }

    /**
     * As {@link #holds}, with a fresh view: if this client was paused, another may have filled the
     * node. A client that starts without the others' items has no fresh view.
     */
    private CompletableFuture<Boolean> stillHolds() {
        return fromNothing
                ? CompletableFuture.completedFuture(holds())
                : watch.fresh(watch.ticks().now_ms() + watch.timing().pause())
                        .thenApply(fresh -> holds());
    }

    /** Takes the claim, or confirms that this client holds it. */
    private CompletableFuture<Boolean> claimed() {
        return target.copy()
                .read(Watch.CLAIM_KEY)
                .thenCompose(
                        found -> {
                            Item there = found.item();
                            boolean taken = there != null && there.value().length > 0;
                            if (taken && !Arrays.equals(there.value(), claim.value())) {
                                return no();
                            }
                            Peer.If free = there == null ? Peer.If.ABSENT : Peer.If.SAME;
                            return target.copy()
                                    .store(Watch.CLAIM_KEY, claim, free, found.version())
                                    .thenApply(Peer.Stored::done);
                        });
    }

    /** Releases the claim, so that another client can take it at once. */
    private void release() {
        Item free = Item.of(Kind.VALUE, new byte[0], 0, CLAIM_S);
        target.copy()
                .read(Watch.CLAIM_KEY)
                .thenAccept(
                        found -> {
                            Item there = found.item();
                            if (there != null && Arrays.equals(there.value(), claim.value())) {
                                target.copy()
                                        .store(
                                                Watch.CLAIM_KEY,
                                                free,
                                                Peer.If.SAME,
                                                found.version());
                            }
                        });
    }

    private CompletableFuture<Boolean> after(long wait_ms, boolean mine) {
        CompletableFuture<Boolean> done = new CompletableFuture<>();
        if (mine) {
            watch.ticks().later(wait_ms, () -> done.complete(holds()));
        } else {
            done.complete(false);
        }
        return done;
    }

    private static CompletableFuture<Boolean> step(
            boolean mine, Supplier<CompletableFuture<?>> task) {
        return mine ? task.get().thenApply(done -> true) : no();
    }

    /**
     * Publishes that all clients must copy their changes to the node; the node itself is the first
     * to store it.
     */
    private CompletableFuture<Boolean> announced() {
        View view = watch.homes().view().with(target.name(), State.FILLING);
        return target.copy()
                .store(Watch.VIEW_KEY, Publisher.held(view), Peer.If.ABSENT, 0)
                .thenCompose(
                        stored -> {
                            if (!stored.done()) {
                                return no();
                            }
                            watch.adopt(view);
                            number = view.number(target.name());
                            keepClaim();
                            return watch.publisher().publish().thenApply(done -> holds());
                        });
    }

    private void keepClaim() {
        if (target.filling() == this && holds()) {
            target.copy().store(Watch.CLAIM_KEY, claim, Peer.If.ANY, 0);
            watch.ticks().later(CLAIM_MS, this::keepClaim);
        }
    }

    /**
     * Copies all items; again if the homes have changed meanwhile. Waits until homes are settled,
     * because a new home may lack the last changes of the home before it.
     */
    private CompletableFuture<Boolean> copies() {
        long wait_ms = watch.settlesIn_ms();
        if (wait_ms > 0) {
            return after(wait_ms, true).thenCompose(mine -> mine ? copies() : no());
        }
        Homes homes = watch.homes();
        List<Replica> sources = homes.known();
        return from(homes, sources, 0)
                .thenCompose(
                        done -> {
                            if (!holds()) {
                                return no();
                            }
                            boolean same = watch.homes().known().equals(sources);
                            boolean all = sources.size() == homes.count();
                            return same && (all || fromNothing && sources.isEmpty())
                                    ? CompletableFuture.completedFuture(true)
                                    : copies();
                        });
    }

    private CompletableFuture<@Nullable Void> from(Homes homes, List<Replica> sources, int index) {
        if (index == sources.size()) {
            return CompletableFuture.completedFuture(null);
        }
        Replica source = sources.get(index);
        return source.copy()
                .keys()
                .thenCompose(
                        keys -> remains(source, homes).thenApply(same -> own(keys, source, homes)))
                .thenCompose(own -> copy(source, own, 0))
                .thenCompose(done -> from(homes, sources, index + 1));
    }

    /**
     * Fails unless the source is the same process, which has the view; otherwise its list of keys
     * is incomplete.
     */
    private CompletableFuture<@Nullable Void> remains(Replica source, Homes homes) {
        return source.copy()
                .read(Watch.VIEW_KEY)
                .thenAccept(
                        found -> {
                            Item item = found.item();
                            View there = item == null ? View.EMPTY : watch.read(item);
                            watch.adopt(there);
                            int number = watch.homes().view().number(source.name());
                            if (item == null || number != homes.view().number(source.name())) {
                                throw new CacheException.Overloaded(
                                        source.name() + " has restarted or has another state");
                            }
                        });
    }

    private static List<byte[]> own(Set<String> keys, Replica source, Homes homes) {
        List<byte[]> own = new ArrayList<>();
        for (String key : keys) {
            byte[] bytes = Keys.bytes(key);
            boolean item = !key.startsWith(Watch.RESERVED);
            if (item && homes.home(Homes.hash(bytes)) == source) {
                own.add(bytes);
            }
        }
        return own;
    }

    private CompletableFuture<@Nullable Void> copy(Replica source, List<byte[]> keys, int from) {
        if (from >= keys.size()) {
            return CompletableFuture.completedFuture(null);
        }
        if (!holds() || watch.ticks().now_ms() - begun_ms > watch.timing().fillMax()) {
            return CompletableFuture.failedFuture(
                    new CacheException.Overloaded(target.name() + " changed or took too long"));
        }
        List<CompletableFuture<@Nullable Void>> part = new ArrayList<>();
        for (byte[] key : keys.subList(from, Math.min(keys.size(), from + AT_ONCE))) {
            part.add(watch.copier().fill(target, source, key));
        }
        copied += part.size();
        return Stages.all(part).thenCompose(done -> copy(source, keys, from + AT_ONCE));
    }

    private void ended(@Nullable Boolean filled, @Nullable Throwable failure) {
        release();
        boolean filling = watch.homes().view().state(target.name()) == State.FILLING;
        if (filled != null && filled && holds()) {
            LOG.info("{} is filled with {} items", target.name(), copied);
            watch.adopt(watch.homes().view().with(target.name(), State.IN));
            target.refused(false);
            target.filling(null);
        } else {
            if (failure != null && !watch.isClosed()) {
                LOG.info("{} could not be filled: {}", target.name(), failure.toString());
            }
            reportRefusal();
            boolean own = filling && holds();
            watch.ticks().later(watch.timing().pause(), () -> target.filling(null));
            if (own) {
                watch.lost(target, "it could not be filled");
            }
        }
    }

    /** Logs a refusal once for the node, not for each attempt. */
    private void reportRefusal() {
        boolean refused = requested && !watch.homes().view().isRequested(target.name());
        if (refused && !watch.isClosed() && !target.isRefused()) {
            target.refused(true);
            LOG.info("{} is not filled while another client does not list it", target.name());
        }
    }
}
