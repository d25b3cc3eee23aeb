package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import cellar.client.internal.cluster.View.State;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps this client's view of the nodes the same as that of all other clients.
 *
 * <p>Every node stores the view. Each client polls all nodes for it ten times a second, merges what
 * it reads, and stores what a node lacks. A client may use a view for a short time after it
 * requested it, the lease. After a change of the view, a client waits for longer than a lease
 * before it uses a new home. So no two clients write to different homes of a key, whatever their
 * clocks show.
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
    private static final int CLAIM_LOOKS = 10;

    /** With at most this many nodes in, all must answer for a lease; with more, all but one. */
    private static final int LEASE_BY_ALL_MAX = 2;

    static final long AGAIN_MS = 5;

    private final String name;
    private final Ticks ticks;
    private final Timing timing;
    private final Runnable changed;
    private final Map<String, Replica> replicas = new ConcurrentHashMap<>();
    private final ReentrantLock lock = new ReentrantLock();
    private final ArrayDeque<Superseded> superseded = new ArrayDeque<>();
    private final Copier copier;
    private final Publisher publisher;
    private final Silence silence;
    private final Listed listed;
    private volatile Homes homes = new Homes(View.EMPTY, Map.of());
    private volatile long freshUntil_ms = Long.MIN_VALUE;
    private volatile long settledAt_ms = Long.MIN_VALUE;
    private volatile boolean closed;
    private volatile @Nullable CacheException unfit;
    private boolean met;

    /** {@code name} identifies this client. */
    Watch(String name, Ticks ticks, Timing timing, Runnable changed) {
        this.name = name;
        this.ticks = ticks;
        this.timing = timing;
        this.changed = changed;
        this.copier = new Copier(this);
        this.publisher = new Publisher(this);
        this.silence = new Silence(timing);
        this.listed = new Listed(replicas.keySet(), timing);
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

    Copier copier() {
        return copier;
    }

    Publisher publisher() {
        return publisher;
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

    /** Starts with these nodes. */
    void start(List<Replica> nodes) {
        View view = View.EMPTY;
        for (Replica node : nodes) {
            replicas.put(node.name(), node);
            view = view.with(node.name());
        }
        merge(view);
        tick();
    }

    /** Adds a node; it must be filled, unless other clients know its state. */
    void join(Replica node) {
        replicas.put(node.name(), node);
        View view = homes.view();
        if (view.knows(node.name())) {
            renewed();
        } else {
            adopt(view.with(node.name(), State.OUT));
        }
    }

    /** The node has a new address, where it must be filled; it stays in the list meanwhile. */
    void move(Replica before, Replica now) {
        lost(before, "it is at another address");
        replicas.put(now.name(), now);
        renewed();
    }

    /** Removes the node. */
    void leave(Replica node) {
        lost(node, "it is no longer among the nodes");
        replicas.remove(node.name(), node);
        renewed();
    }

    /** The list of nodes has changed. */
    private void renewed() {
        if (merge(homes.view())) {
            tell();
            return;
        }
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

    /** Whether it must continue with its own nodes although only other nodes have items. */
    boolean isOrphaned() {
        return listed.isOrphaned(ticks.now_ms());
    }

    // Acting.

    /** Whether the view may be used. */
    boolean isFresh() {
        return !closed && ticks.now_ms() <= freshUntil_ms;
    }

    /** Returns how long a key with this hash must not be changed; 0 if it may be. */
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
                if (home != null && before.differs(home, homes.view(), hash)) {
                    wait_ms = Math.max(wait_ms, before.left_ms(now_ms));
                }
            }
            return wait_ms;
        } finally {
            lock.unlock();
        }
    }

    /** Returns how long any key must not be changed; 0 if all may be. */
    long settlesIn_ms() {
        long now_ms = ticks.now_ms();
        lock.lock();
        try {
            return now_ms >= settledAt_ms
                    ? 0
                    : superseded.stream().mapToLong(s -> s.left_ms(now_ms)).max().orElse(0);
        } finally {
            lock.unlock();
        }
    }

    /** Whether {@code home} is and was the key's home since {@code before}, by a fresh view. */
    boolean isHome(Replica home, Homes before, long hash) {
        return isFresh() && staysHome(home, before, hash);
    }

    /**
     * As {@link #isHome}, with any view. A node that was out since then and came back counts as
     * another home, and so does one that was not the home in between.
     */
    boolean staysHome(Replica home, Homes before, long hash) {
        Homes now = homes;
        if (now == before) {
            return now.home(hash) == home;
        }
        Homes between = new Homes(before.view().until(now.view()), replicas);
        return now.view().number(home.name()) == before.view().number(home.name())
                && now.home(hash) == home
                && between.home(hash) == home;
    }

    /** Completes when the view may be used; fails if that takes until {@code until_ms}. */
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
        listed.look(homes.view(), ticks.now_ms());
        ticks.later(timing.poll(), this::tick);
    }

    private void poll(Replica node) {
        lock.lock();
        try {
            if (closed || !node.seen().begin()) {
                return;
            }
            silence.asks(node.seen(), others(node), ticks.now_ms());
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
        if (found == null || failure != null) {
            unheard(node, begun_ms, failure);
            return;
        }
        lock.lock();
        try {
            long now_ms = ticks.now_ms();
            node.seen().answered(now_ms, begun_ms);
            silence.answered(now_ms);
        } finally {
            lock.unlock();
        }
        if (closed) {
            return;
        }
        Item item = found.item();
        if (item == null) {
            withoutView(node);
        } else {
            withView(node, begun_ms, read(item));
        }
        fill(node);
        blame();
    }

    private void unheard(Replica node, long begun_ms, @Nullable Throwable failure) {
        CacheException known =
                failure == null ? new CacheException.Protocol("no answer") : Stages.known(failure);
        boolean excused = !Replica.isNodesFault(known);
        List<Replica> witnesses;
        lock.lock();
        try {
            node.seen().unanswered(ticks.now_ms(), excused);
            witnesses = replicas.values().stream().filter(other -> other.seen().answers()).toList();
            if (!isLate(known) && !excused) {
                node.seen().blamed(begun_ms);
            } else if (witnesses.isEmpty()) {
                silence.hearsNobody();
            }
        } finally {
            lock.unlock();
        }
        if (closed) {
            return;
        }
        node.tell(false);
        if (known instanceof CacheException.Configuration) {
            unfit = known;
        } else if (!excused) {
            witnesses.forEach(this::poll);
            blame();
        }
    }

    /** Whether an answer was late, now or when the node was declared down. */
    private static boolean isLate(CacheException known) {
        return known instanceof CacheException.Timeout
                || known.getCause() instanceof CacheException.Timeout;
    }

    /** A request had no answer: polls the node at once to see whether it has failed. */
    void suspect(Replica node) {
        if (answers(node, 0)) {
            poll(node);
        }
    }

    /** Whether it has answered every poll for this long. */
    private boolean answers(Replica node, long for_ms) {
        lock.lock();
        try {
            long since_ms = node.seen().answersSince_ms();
            return node.seen().answers() && since_ms <= ticks.now_ms() - for_ms;
        } finally {
            lock.unlock();
        }
    }

    /** Declares nodes out whose silence is their own fault. */
    private void blame() {
        List<Replica> blamed;
        lock.lock();
        try {
            blamed = replicas.values().stream().filter(this::isToBlame).toList();
        } finally {
            lock.unlock();
        }
        blamed.forEach(node -> lost(node, "it does not answer"));
    }

    private boolean isToBlame(Replica node) {
        return node.seen().isSilent()
                && homes.view().state(node.name()) != State.OUT
                && silence.isItsOwn(node.seen(), others(node));
    }

    /** Returns the poll results of the other nodes that are in. */
    private List<Seen> others(Replica node) {
        return homes.known().stream().filter(other -> other != node).map(Replica::seen).toList();
    }

    /** Returns the view in a node's item. */
    View read(Item item) {
        String text = new String(item.value(), StandardCharsets.UTF_8);
        View known = homes.view();
        return text.equals(known.text()) ? known : View.parse(text);
    }

    private void withView(Replica node, long begun_ms, View found) {
        boolean first;
        lock.lock();
        try {
            first = !met;
            met = true;
            node.seen().viewFound();
        } finally {
            lock.unlock();
        }
        node.tell(true);
        adopt(first ? listed.withNewcomers(found) : found);
        lock.lock();
        try {
            node.seen().heard(begun_ms);
            renewLease();
        } finally {
            lock.unlock();
        }
        if (!homes.view().equals(found) && homes.view().state(node.name()) != State.OUT) {
            publisher.push(node, false);
        }
    }

    /** Handles a node without the view: it is another process, or all nodes are new. */
    private void withoutView(Replica node) {
        boolean first;
        boolean last;
        lock.lock();
        try {
            node.seen().viewMissed();
            first = !met && replicas.values().stream().allMatch(Watch::isBlank);
            last = homes.count() == 1 && homes.isIn(node);
            if (node.seen().isBeingGiven()) {
                return;
            }
            // If no node has ever failed, another client may be storing the first view now.
            boolean fresh = homes.view().number() == 0 && node.seen().isUnheard();
            int missingMax = fresh ? MISSING_AT_FIRST_MAX : MISSING_MAX;
            if (!first && (!met || !node.seen().lacksView(missingMax))) {
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
            node.seen().viewGiven();
            publisher
                    .push(node, true)
                    .whenComplete(
                            (done, failure) -> {
                                node.seen().viewFound();
                                poll(node);
                            });
        }
    }

    private static boolean isBlank(Replica node) {
        return node.seen().isBlank(MISSING_MAX);
    }

    /**
     * Renews the lease: all nodes but one must have sent their view since, and that one not long
     * before; of two nodes, both.
     */
    private void renewLease() {
        long[] heard =
                homes.known().stream().mapToLong(node -> node.seen().heard_ms()).sorted().toArray();
        if (heard.length != homes.count() || heard.length == 0) {
            freshUntil_ms = Long.MIN_VALUE;
        } else if (heard.length <= LEASE_BY_ALL_MAX) {
            freshUntil_ms = heard[0] + timing.lease();
        } else {
            freshUntil_ms = Math.min(heard[0] + timing.skipped(), heard[1]) + timing.lease();
        }
    }

    // Telling.

    /**
     * A copy has had no answer for {@code for_ms}. If the node has answered all polls meanwhile, it
     * is out; if it answers nothing, {@link Silence} decides.
     */
    void undelivered(Replica node, long for_ms, String why) {
        if (for_ms > timing.doubt() && answers(node, timing.doubt())) {
            lost(node, why);
        } else {
            suspect(node);
        }
    }

    /** The node lacks a change, or is another process than before: declares it out. */
    void lost(Replica node, String why) {
        lock.lock();
        try {
            View view = homes.view();
            State state = view.state(node.name());
            boolean only = state == State.IN && homes.count() == 1;
            if (state == State.OUT || only || replicas.get(node.name()) != node) {
                return;
            }
            merge(view.with(node.name(), State.OUT));
        } finally {
            lock.unlock();
        }
        LOG.info("{} is not used until it is filled: {}", node.name(), why);
        tell();
    }

    /**
     * Publishes the view and repeats that until all nodes in use have it. One lease later all
     * clients have it.
     */
    private void tell() {
        Superseded last = lastSuperseded();
        publisher
                .publish()
                .whenComplete(
                        (done, failure) -> {
                            if (failure == null) {
                                told(last);
                            } else if (!closed && last == lastSuperseded()) {
                                // A client that has changed the view since publishes this change
                                // too.
                                ticks.later(timing.poll(), this::tell);
                            }
                        });
    }

    private @Nullable Superseded lastSuperseded() {
        lock.lock();
        try {
            return superseded.peekLast();
        } finally {
            lock.unlock();
        }
    }

    /** All nodes have a later view than this one and those before it. */
    private void told(@Nullable Superseded last) {
        lock.lock();
        try {
            if (!superseded.contains(last)) {
                return;
            }
            long now_ms = ticks.now_ms();
            long settled_ms = Long.MIN_VALUE;
            boolean later = false;
            for (Superseded before : superseded) {
                if (!later) {
                    before.told(now_ms + lease_ms(before));
                }
                later |= before == last;
                settled_ms = Math.max(settled_ms, before.until_ms());
            }
            // Set at once, because callers read it without the lock.
            settledAt_ms = settled_ms;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Returns how long other clients may use {@code before} although all nodes that are not out
     * have a later view. It is longer if only one of its nodes is in this client's list, because
     * the others need no answer from that one.
     */
    private long lease_ms(Superseded before) {
        long told = replicas.values().stream().filter(before::hadIn).count();
        boolean heard = told > 1 || before.count() <= LEASE_BY_ALL_MAX;
        return timing.lease() + (heard ? 0 : timing.skipped());
    }

    /** Merges {@code other}; true if it contained something new. */
    boolean adopt(View other) {
        boolean more = other != homes.view() && merge(other);
        if (more) {
            tell();
        }
        return more;
    }

    private boolean merge(View other) {
        List<Runnable> given = new ArrayList<>();
        lock.lock();
        try {
            Homes old = homes;
            View view = listed.judge(old.view().merged(other));
            if (view.equals(old.view())) {
                return false;
            }
            long now_ms = ticks.now_ms();
            superseded.removeIf(before -> before.isOver(now_ms));
            if (old.count() > 0 && !view.hasStatesOf(old.view())) {
                Homes between = new Homes(old.view().until(view), replicas);
                superseded.add(new Superseded(old, between, now_ms + timing.pause()));
                settledAt_ms = Long.MAX_VALUE;
            }
            homes = new Homes(view, replicas);
            for (Replica node : replicas.values()) {
                if (old.view().number(node.name()) != view.number(node.name())) {
                    given.add(moved(node, view.state(node.name())));
                }
            }
            renewLease();
            listed.report(old.view(), view);
        } finally {
            lock.unlock();
        }
        given.forEach(Runnable::run);
        changed.run();
        return true;
    }

    private static Runnable moved(Replica node, State state) {
        if (state != State.OUT) {
            node.queue().open();
            return () -> {};
        }
        return node.queue().shut();
    }

    // Nodes that come back.

    private void fill(Replica node) {
        State state = homes.view().state(node.name());
        if (state == State.IN || node.filling() != null) {
            return;
        }
        if (state == State.OUT) {
            if (homes.known().size() == homes.count() || isOrphaned()) {
                Filling filling = new Filling(this, node);
                node.filling(filling);
                filling.start();
            }
        } else if (node.seen().isTurn(CLAIM_LOOKS)) {
            int number = homes.view().number(node.name());
            node.copy().read(CLAIM_KEY).thenAccept(found -> claimSeen(node, number, found));
        }
    }

    /** A filling without a claim was abandoned, so the node is out again. */
    private void claimSeen(Replica node, int number, Found found) {
        Item claim = found.item();
        boolean claimed = claim != null && claim.value().length > 0;
        boolean filling = homes.view().number(node.name()) == number;
        if (claimed || !filling) {
            node.seen().claimed();
        } else if (node.seen().claimMissed(MISSING_MAX)) {
            node.seen().claimed();
            lost(node, "the client that filled it has stopped");
        }
    }

    /**
     * If the only node that has everything does not come back, another node replaces it with the
     * items that it has.
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
            boolean gone = silence.lasts(last.seen(), ticks.now_ms(), timing.giveUp());
            for (Replica node : replicas.values()) {
                boolean fits = node != last && node.seen().answers();
                if (gone && fits && homes.view().state(node.name()) == State.FILLING) {
                    heir = node;
                }
            }
            for (Replica node : replicas.values()) {
                boolean fits = node != last && node.seen().answers() && node.filling() == null;
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
                    LOG.warn("{} is lost with the items that only it had", last.name());
                    View view = homes.view();
                    adopt(view.with(heir.name(), State.IN).with(last.name(), State.OUT));
                    publisher.push(heir, true);
                });
    }
}
