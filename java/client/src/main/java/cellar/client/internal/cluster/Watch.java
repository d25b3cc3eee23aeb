package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.CacheMetrics;
import cellar.client.internal.Stages;
import cellar.client.internal.cluster.View.State;
import cellar.client.internal.wire.Mark.Kind;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps this client's view of the nodes the same as all others'.
 *
 * <p>The view lies on every node. Each client asks all nodes for it many times a second, merges
 * what it reads, and tells the nodes what they lack. A view may be acted on for a short time after
 * it was asked for, the lease; who changes it waits for longer than that before he uses a new home.
 * So no two clients write to different homes of a key, however apart their clocks are.
 *
 * <p>Rules and proofs: docs/java-replication.md.
 */
final class Watch {
    static final byte[] VIEW_KEY = "cellar:view".getBytes(StandardCharsets.US_ASCII);
    static final byte[] CLAIM_KEY = "cellar:filling".getBytes(StandardCharsets.US_ASCII);
    static final String RESERVED = "cellar:";

    private static final Logger LOG = LoggerFactory.getLogger(Watch.class);
    private static final int MISSING_MAX = 2;
    private static final int MISSING_AT_FIRST_MAX = 30;
    private static final int PUSHES_MAX = 8;
    private static final int CLAIM_LOOKS = 10;
    private static final long AGAIN_MS = 5;

    /** Homes that others may still use until then. */
    private static final class Superseded {
        final Homes homes;
        long until_ms;

        Superseded(Homes homes, long until_ms) {
            this.homes = homes;
            this.until_ms = until_ms;
        }
    }

    private final String name;
    private final Ticks ticks;
    private final Timing timing;
    private final Runnable changed;
    private final Map<String, Replica> replicas = new ConcurrentHashMap<>();
    private final ReentrantLock lock = new ReentrantLock();
    private final ArrayDeque<Superseded> superseded = new ArrayDeque<>();
    private final Copier copier;
    private volatile Homes homes = new Homes(View.EMPTY, Map.of());
    private volatile long freshUntil_ms = Long.MIN_VALUE;
    private volatile long settledAt_ms = Long.MIN_VALUE;
    private volatile boolean closed;
    private volatile @Nullable CacheException unfit;
    private boolean met;

    /** {@code name} tells this client from others. */
    Watch(String name, Ticks ticks, Timing timing, Runnable changed) {
        this.name = name;
        this.ticks = ticks;
        this.timing = timing;
        this.changed = changed;
        this.copier = new Copier(this);
    }

    String name() {
        return name;
    }

    Ticks ticks() {
        return ticks;
    }

    Timing timing() {
        return timing;
    }

    /** Who delivers what is queued for the node of this name. */
    CopyQueue.Target delivery(String name) {
        return delivery(name, CacheMetrics.NONE, name);
    }

    /** The same, and tells {@code metrics} of it. */
    CopyQueue.Target delivery(String name, CacheMetrics metrics, String address) {
        return new CopyQueue.Target() {
            @Override
            public CompletableFuture<@Nullable Void> deliver(byte[] key, @Nullable Item copy) {
                Replica to = replicas.get(name);
                if (to == null) {
                    return CompletableFuture.completedFuture(null);
                }
                return copy == null
                        ? copier.pull(to, key).thenApply(Watch::pulled)
                        : copier.deliver(to, key, copy);
            }

            @Override
            public void waiting(int count) {
                metrics.replicating(address, count);
            }

            @Override
            public void undelivered(String why, boolean full) {
                if (full) {
                    metrics.overloaded(address, "replication");
                }
                Replica to = replicas.get(name);
                if (to != null) {
                    lost(to, why);
                }
            }
        };
    }

    private static @Nullable Void pulled(boolean had) {
        if (!had) {
            throw new CacheException.Refused("the home has nothing any more");
        }
        return null;
    }

    Copier copier() {
        return copier;
    }

    Homes homes() {
        return homes;
    }

    Iterable<Replica> replicas() {
        return replicas.values();
    }

    @Nullable Replica replica(String name) {
        return replicas.get(name);
    }

    // Members.

    /** Begins with these nodes. */
    void start(List<Replica> nodes) {
        View view = View.EMPTY;
        for (Replica node : nodes) {
            replicas.put(node.name(), node);
            view = view.with(node.name());
        }
        adopt(view);
        tick();
    }

    /** A node that was not there at the start: it has to be filled, unless others know better. */
    void join(Replica node) {
        replicas.put(node.name(), node);
        View view = homes.view();
        if (view.knows(node.name())) {
            renewed();
        } else {
            adopt(view.with(node.name(), State.OUT));
        }
    }

    /** The node is not used any more. */
    void leave(Replica node) {
        lost(node, "it is no longer among the nodes");
        replicas.remove(node.name(), node);
        renewed();
    }

    /** The homes are the same, but what this client knows of the nodes is not. */
    private void renewed() {
        lock.lock();
        try {
            homes = new Homes(homes.view(), replicas);
        } finally {
            lock.unlock();
        }
        changed.run();
    }

    void close() {
        closed = true;
    }

    boolean isClosed() {
        return closed;
    }

    // Acting.

    /** Whether the view may be acted on. */
    boolean isFresh() {
        return ticks.now_ms() <= freshUntil_ms;
    }

    /** How long a key with this hash must not be written to; 0 for not at all. */
    long settlesIn_ms(long hash) {
        long now_ms = ticks.now_ms();
        if (now_ms >= settledAt_ms) {
            return 0;
        }
        lock.lock();
        try {
            Replica home = homes.home(hash);
            long wait_ms = 0;
            for (Superseded before : superseded) {
                if (before.homes.home(hash) != home) {
                    wait_ms = Math.max(wait_ms, before.until_ms - now_ms);
                }
            }
            return wait_ms;
        } finally {
            lock.unlock();
        }
    }

    /** Whether {@code home} still is the home of a key. */
    boolean isHome(Replica home, long hash) {
        return isFresh() && homes.home(hash) == home;
    }

    /** Completes when the view may be acted on; fails if it may not by {@code until_ms}. */
    CompletableFuture<@Nullable Void> fresh(long until_ms) {
        CompletableFuture<@Nullable Void> done = new CompletableFuture<>();
        fresh(until_ms, done);
        return done;
    }

    private void fresh(long until_ms, CompletableFuture<@Nullable Void> done) {
        if (isFresh()) {
            done.complete(null);
        } else if (closed) {
            done.completeExceptionally(new CacheException.Closed());
        } else if (unfit != null) {
            done.completeExceptionally(unfit);
        } else if (ticks.now_ms() >= until_ms) {
            done.completeExceptionally(
                    new CacheException.Connection("too few nodes answer: " + homes.view(), null));
        } else {
            ticks.later(AGAIN_MS, () -> fresh(until_ms, done));
        }
    }

    // Asking.

    private void tick() {
        if (closed) {
            return;
        }
        replicas.values().forEach(this::poll);
        replaceLast();
        ticks.later(timing.poll(), this::tick);
    }

    private void poll(Replica node) {
        lock.lock();
        try {
            if (node.seen.polling || closed) {
                return;
            }
            node.seen.polling = true;
        } finally {
            lock.unlock();
        }
        long begun_ms = ticks.now_ms();
        node.copy()
                .read(VIEW_KEY)
                .whenComplete((found, failure) -> polled(node, begun_ms, found, failure));
    }

    private void polled(
            Replica node, long begun_ms, @Nullable Found found, @Nullable Throwable failure) {
        lock.lock();
        try {
            node.seen.polling = false;
            if (found == null || failure != null) {
                if (node.seen.answers || node.seen.silentSince_ms == 0) {
                    node.seen.silentSince_ms = ticks.now_ms();
                }
                node.seen.answers = false;
            } else {
                node.seen.answers = true;
                node.seen.polls++;
            }
        } finally {
            lock.unlock();
        }
        if (closed) {
            return;
        }
        if (found == null || failure != null) {
            unheard(node, failure);
            return;
        }
        Item item = found.item();
        if (item == null) {
            withoutView(node);
        } else {
            withView(node, begun_ms, view(item));
        }
        fill(node);
    }

    private void unheard(Replica node, @Nullable Throwable failure) {
        node.tell(false);
        CacheException known =
                failure == null ? new CacheException.Protocol("no answer") : Stages.known(failure);
        if (known instanceof CacheException.Configuration) {
            unfit = known;
        } else if (Replica.isNodesFault(known)) {
            lost(node, String.valueOf(known.getMessage()));
        }
    }

    private View view(Item item) {
        String text = new String(item.value(), StandardCharsets.UTF_8);
        View known = homes.view();
        return text.equals(known.text()) ? known : View.parse(text);
    }

    private void withView(Replica node, long begun_ms, View found) {
        lock.lock();
        try {
            met = true;
            node.seen.missing = 0;
        } finally {
            lock.unlock();
        }
        node.tell(true);
        adopt(found);
        lock.lock();
        try {
            node.seen.heard_ms = Math.max(node.seen.heard_ms, begun_ms);
            renewLease();
        } finally {
            lock.unlock();
        }
        if (!homes.view().equals(found) && homes.view().state(node.name()) != State.OUT) {
            push(node, false);
        }
    }

    /** A node without the view is another process than it was, or all of them begin. */
    private void withoutView(Replica node) {
        boolean first;
        boolean last;
        lock.lock();
        try {
            node.seen.missing++;
            first = !met && replicas.values().stream().allMatch(Watch::isBlank);
            last = homes.count() == 1 && homes.isIn(node);
            if (node.seen.missing < 0) {
                return;
            }
            // Where nothing has ever failed, another client may just be telling the nodes.
            boolean fresh = homes.view().number() == 0 && node.seen.heard_ms == Replica.NEVER_MS;
            int missingMax = fresh ? MISSING_AT_FIRST_MAX : MISSING_MAX;
            if (!first && (!met || node.seen.missing < missingMax)) {
                ticks.later(AGAIN_MS, () -> poll(node));
                return;
            }
            met |= first;
        } finally {
            lock.unlock();
        }
        if (first) {
            replicas.values().forEach(this::begin);
        } else if (last) {
            begin(node);
        } else {
            lost(node, "it does not know the view");
        }
    }

    private void begin(Replica node) {
        if (homes.isIn(node)) {
            node.seen.missing = Integer.MIN_VALUE;
            push(node, true)
                    .whenComplete(
                            (done, failure) -> {
                                node.seen.missing = 0;
                                poll(node);
                            });
        }
    }

    private static boolean isBlank(Replica node) {
        return node.seen.missing >= MISSING_MAX
                || !node.seen.answers && node.seen.silentSince_ms != 0;
    }

    /** All nodes but one must have told their view since; of two, both. */
    private void renewLease() {
        long[] heard =
                homes.known().stream().mapToLong(node -> node.seen.heard_ms).sorted().toArray();
        if (heard.length == homes.count() && heard.length > 0) {
            freshUntil_ms = heard[heard.length > 2 ? 1 : 0] + timing.lease();
        } else {
            freshUntil_ms = Long.MIN_VALUE;
        }
    }

    // Telling.

    /** The node lacks a change or does not answer. */
    void lost(Replica node, String why) {
        CompletableFuture<?> published;
        Superseded before;
        lock.lock();
        try {
            View view = homes.view();
            State state = view.state(node.name());
            boolean only = state == State.IN && homes.count() == 1;
            if (state == State.OUT || only || replicas.get(node.name()) != node) {
                return;
            }
            adopt(view.with(node.name(), State.OUT));
            before = superseded.peekLast();
        } finally {
            lock.unlock();
        }
        LOG.info("{} is not used until it is filled: {}", node.name(), why);
        published = publish();
        published.whenComplete((done, failure) -> published(before));
    }

    private void published(@Nullable Superseded before) {
        if (before == null) {
            return;
        }
        lock.lock();
        try {
            before.until_ms = Math.max(before.until_ms, ticks.now_ms() + timing.lease());
            settledAt_ms = Math.max(settledAt_ms, before.until_ms);
        } finally {
            lock.unlock();
        }
    }

    /** Takes over what {@code other} says; true if that is more than was known. */
    boolean adopt(View other) {
        if (other == homes.view()) {
            return false;
        }
        List<Runnable> given = new ArrayList<>();
        lock.lock();
        try {
            Homes old = homes;
            View view = old.view().merged(other);
            if (view.equals(old.view())) {
                return false;
            }
            long now_ms = ticks.now_ms();
            for (Iterator<Superseded> all = superseded.iterator(); all.hasNext(); ) {
                if (all.next().until_ms <= now_ms) {
                    all.remove();
                }
            }
            if (old.count() > 0) {
                superseded.add(new Superseded(old, now_ms + timing.pause()));
                settledAt_ms = Math.max(settledAt_ms, now_ms + timing.pause());
            }
            homes = new Homes(view, replicas);
            for (Replica node : replicas.values()) {
                if (old.view().number(node.name()) != view.number(node.name())) {
                    given.add(moved(node, view.state(node.name()), now_ms));
                }
            }
            renewLease();
        } finally {
            lock.unlock();
        }
        given.forEach(Runnable::run);
        changed.run();
        return true;
    }

    private static Runnable moved(Replica node, State state, long now_ms) {
        if (state != State.OUT) {
            node.queue().open();
            return () -> {};
        }
        node.seen.outSince_ms = now_ms;
        return node.queue().shut();
    }

    /** Tells all nodes that are used. */
    CompletableFuture<?> publish() {
        List<CompletableFuture<?>> pushes = new ArrayList<>();
        for (Replica node : replicas.values()) {
            if (homes.view().state(node.name()) != State.OUT) {
                pushes.add(push(node, false));
            }
        }
        return CompletableFuture.allOf(pushes.toArray(CompletableFuture[]::new));
    }

    /** Tells a node; if {@code create}, also one that knows no view. */
    CompletableFuture<@Nullable Void> push(Replica node, boolean create) {
        return push(node, create, 1);
    }

    private CompletableFuture<@Nullable Void> push(Replica node, boolean create, int attempt) {
        return node.copy()
                .read(VIEW_KEY)
                .thenCompose(
                        found -> {
                            Item item = found.item();
                            View there = item == null ? View.EMPTY : view(item);
                            adopt(there);
                            View view = homes.view();
                            if (item == null && !create || view.equals(there)) {
                                return CompletableFuture.completedFuture(null);
                            }
                            return node.copy()
                                    .store(
                                            VIEW_KEY,
                                            held(view),
                                            item == null ? Peer.If.ABSENT : Peer.If.SAME,
                                            found.version())
                                    .thenCompose(
                                            stored ->
                                                    stored.done() || attempt == PUSHES_MAX
                                                            ? CompletableFuture.completedFuture(
                                                                    null)
                                                            : push(node, create, attempt + 1));
                        });
    }

    /** The view as it lies on a node. */
    static Item held(View view) {
        return Item.of(Kind.VALUE, view.text().getBytes(StandardCharsets.UTF_8), 0, 0);
    }

    // Nodes that come back.

    private void fill(Replica node) {
        State state = homes.view().state(node.name());
        if (state == State.IN || node.filling() != null) {
            return;
        }
        if (state == State.OUT) {
            if (homes.count() > 0 && !(homes.count() == 1 && homes.isIn(node))) {
                Filling filling = new Filling(this, node);
                node.filling(filling);
                filling.start();
            }
        } else if (node.seen.polls % CLAIM_LOOKS == 0) {
            int number = homes.view().number(node.name());
            node.copy().read(CLAIM_KEY).thenAccept(found -> claimSeen(node, number, found));
        }
    }

    /** A filling without a claim has no end. */
    private void claimSeen(Replica node, int number, Found found) {
        Item claim = found.item();
        boolean claimed = claim != null && claim.value().length > 0;
        boolean filling = homes.view().number(node.name()) == number;
        node.seen.unclaimed = claimed || !filling ? 0 : node.seen.unclaimed + 1;
        if (node.seen.unclaimed >= MISSING_MAX) {
            node.seen.unclaimed = 0;
            lost(node, "who filled it has gone");
        }
    }

    /**
     * If the only node that has everything does not come back, another goes on with what it has.
     */
    private void replaceLast() {
        Replica heir = null;
        Replica last;
        lock.lock();
        try {
            List<Replica> in = homes.known();
            if (homes.count() != 1 || in.size() != 1) {
                return;
            }
            last = in.get(0);
            boolean gone =
                    !last.seen.answers
                            && last.seen.silentSince_ms != 0
                            && ticks.now_ms() - last.seen.silentSince_ms > timing.giveUp();
            for (Replica node : replicas.values()) {
                boolean fits = node != last && node.seen.answers;
                if (gone && fits && homes.view().state(node.name()) == State.FILLING) {
                    heir = node;
                }
            }
            for (Replica node : replicas.values()) {
                boolean fits = node != last && node.seen.answers && node.filling() == null;
                if (gone && fits && heir == null) {
                    heir = node;
                }
            }
        } finally {
            lock.unlock();
        }
        if (heir != null) {
            inherit(last, heir);
        }
    }

    private void inherit(Replica last, Replica heir) {
        boolean empty = homes.view().state(heir.name()) == State.OUT;
        CompletableFuture<?> ready =
                empty ? heir.copy().flush() : CompletableFuture.completedFuture(null);
        ready.thenRun(
                () -> {
                    LOG.warn("{} is lost with all that only it had", last.name());
                    View view = homes.view();
                    adopt(view.with(heir.name(), State.IN).with(last.name(), State.OUT));
                    push(heir, true);
                });
    }
}
