package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.Node;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.net.Loops;
import cellar.client.internal.wire.Operation;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.SlotsOperation;
import cellar.client.internal.wire.SlotsOperation.Range;
import io.netty.util.concurrent.ScheduledFuture;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Each key is on the node that owns its slot, in a Cellar or Redis cluster.
 *
 * <p>The client reads the slot map once a second, and at once when a node redirects a request or is
 * lost. Until the map is known, requests go to the first node, which redirects them. A node that
 * redirects or rejects a request because of its slot has not executed it, so the client sends it
 * again.
 *
 * <p>Invariant: no local copy outlives the move of its slot. The stay of a slot ends before any
 * client thread uses the new owner, and when a node reports that it has lost the slot. Other slots
 * keep their stay.
 */
public final class SlotCluster extends Cluster {
    /** The interval between reads of the map. */
    private static final long LOOK_MS = 1000;

    /** The time-out of a node's answer with the map, before the next node is asked. */
    private static final long TURN_MS = 300;

    /** Limit of attempts to send a request. */
    private static final int ATTEMPTS_MAX = 6;

    /** The pause before a request is sent again, while the nodes agree on the owner of its slot. */
    private static final long PAUSE_MS = 50;

    private static final String[] REDIRECTIONS = {"-MOVED ", "-CLUSTERDOWN", "-TRYAGAIN"};

    private record Members(List<Range> ranges, Endpoint[] owners, Map<Node, Endpoint> endpoints) {}

    private final Function<Node, Endpoint> connect;
    private final Loops loops;
    private final List<Node> seeds;
    private final Retirement retired = new Retirement();
    private final AtomicInteger turn = new AtomicInteger();
    private final ScheduledFuture<?> looks;

    /** The initial nodes that the map does not contain. */
    private final Map<Node, Endpoint> spares = new HashMap<>();

    /** The number of the current stay of each slot; a number is not used again. */
    private final AtomicIntegerArray stays = new AtomicIntegerArray(SlotsOperation.SLOTS);

    private volatile Members members;
    private @Nullable CompletableFuture<@Nullable Void> reading;

    /** Starts with {@code seeds}, some of the cluster's nodes. */
    public SlotCluster(Function<Node, Endpoint> connect, List<Node> seeds, Loops loops) {
        this.connect = connect;
        this.loops = loops;
        this.seeds = List.copyOf(seeds);
        Map<Node, Endpoint> first = new HashMap<>();
        seeds.forEach(node -> first.computeIfAbsent(node, this::connected));
        // Any node redirects to the owner.
        Endpoint[] owners = new Endpoint[SlotsOperation.SLOTS];
        Arrays.fill(owners, first.get(seeds.get(0)));
        members = new Members(List.of(), owners, first);
        looks =
                loops.next()
                        .scheduleWithFixedDelay(this::refresh, 0, LOOK_MS, TimeUnit.MILLISECONDS);
    }

    // The map.

    /**
     * Reads the map, unless a read is in progress.
     *
     * <p>Asks the nodes one after the other until one answers. Each read starts with the next node.
     */
    private synchronized CompletableFuture<@Nullable Void> refresh() {
        CompletableFuture<@Nullable Void> under = reading;
        if (under != null && !under.isDone()) {
            return under;
        }
        List<Endpoint> asked = askable();
        CompletableFuture<@Nullable Void> next = ask(asked, turn.getAndIncrement(), asked.size());
        reading = next;
        return next;
    }

    /** Returns the nodes to ask for the map: those of the last map, then the initial ones. */
    private List<Endpoint> askable() {
        Map<Node, Endpoint> known = members.endpoints;
        List<Endpoint> all = new ArrayList<>(known.values());
        for (Node seed : seeds) {
            if (!known.containsKey(seed)) {
                all.add(spares.computeIfAbsent(seed, connect));
            }
        }
        return all;
    }

    private CompletableFuture<@Nullable Void> ask(List<Endpoint> asked, int at, int left) {
        SlotsOperation question = new SlotsOperation();
        Endpoint node = asked.get((at & 0x7fffffff) % asked.size());
        return node.submit(question)
                .copy()
                .orTimeout(TURN_MS, TimeUnit.MILLISECONDS)
                .handle((ranges, failure) -> ranges != null && use(ranges))
                .thenCompose(
                        known ->
                                known || left <= 1
                                        ? CompletableFuture.<@Nullable Void>completedFuture(null)
                                        : ask(asked, at + 1, left - 1));
    }

    /** Uses this map from now on; false if it has no slots. */
    private synchronized boolean use(List<Range> ranges) {
        Members before = members;
        if (ranges.isEmpty()) {
            return false;
        }
        if (before.ranges.equals(ranges)) {
            return true;
        }
        Map<Node, Endpoint> endpoints = new HashMap<>();
        Endpoint[] owners = new Endpoint[SlotsOperation.SLOTS];
        for (Range range : ranges) {
            Endpoint known = before.endpoints.get(range.node());
            Endpoint node =
                    endpoints.computeIfAbsent(
                            range.node(), same -> known == null ? connected(same) : known);
            Arrays.fill(owners, range.first(), range.last() + 1, node);
        }
        // Before the map is set, so that no copy tracked by the old map is valid with the new one.
        // Again after it, for threads that looked up a home in between.
        endStays(before.owners, owners);
        members = new Members(List.copyOf(ranges), owners, endpoints);
        endStays(before.owners, owners);
        before.endpoints.forEach(
                (node, endpoint) -> {
                    if (!endpoints.containsKey(node)) {
                        retired.add(endpoint);
                    }
                });
        return true;
    }

    /**
     * Ends the stays of slots that have another owner, so that copies of their items are invalid.
     */
    private void endStays(Endpoint[] before, Endpoint[] after) {
        for (int slot = 0; slot < after.length; slot++) {
            if (before[slot] != after[slot]) {
                stays.incrementAndGet(slot);
            }
        }
    }

    @Override
    public long stay(byte[] key) {
        int slot = Slots.of(key);
        return (long) slot << Integer.SIZE | stays.get(slot) & 0xffff_ffffL;
    }

    @Override
    public boolean lasts(long stay) {
        return stays.get((int) (stay >>> Integer.SIZE)) == (int) stay;
    }

    @Override
    public boolean hasSlots() {
        return true;
    }

    /** Ends the stays of the lost slots and reads the map for their new owners. */
    @Override
    public synchronized void lost(Endpoint node, BitSet slots) {
        Endpoint[] owners = members.owners;
        slots.stream().filter(slot -> owners[slot] == node).forEach(stays::incrementAndGet);
        loops.next().execute(this::refresh);
    }

    private Endpoint connected(Node node) {
        Endpoint endpoint = connect.apply(node);
        endpoint.listen(
                new Endpoint.Listener() {
                    @Override
                    public void lost(Endpoint which) {
                        loops.next().execute(SlotCluster.this::refresh);
                    }

                    @Override
                    public void back(Endpoint which) {
                        // The map shows which node owns its slots.
                    }
                });
        return endpoint;
    }

    // Requests.

    @Override
    public Endpoint home(byte[] key) {
        Endpoint owner = members.owners[Slots.of(key)];
        if (owner == null) {
            throw new CacheException.Connection("no node has the slot of the key", null);
        }
        return owner;
    }

    @Override
    public List<Endpoint> endpoints() {
        return List.copyOf(members.endpoints.values());
    }

    @Override
    public CompletableFuture<@Nullable Void> ready() {
        return members.ranges.isEmpty() ? refresh() : super.ready();
    }

    @Override
    public boolean takesManyAtOnce() {
        return false;
    }

    @Override
    public int trackingPort(Endpoint endpoint, int otherwise) {
        return endpoint.node().port();
    }

    @Override
    public <R extends @Nullable Object> CompletionStage<R> read(
            byte[] key, Supplier<ReadOperation<R>> read) {
        return sent(key, read, 1);
    }

    @Override
    public <R extends @Nullable Object> R readNow(byte[] key, Supplier<ReadOperation<R>> read) {
        return sentNow(key, read);
    }

    @Override
    public <R extends @Nullable Object> CompletionStage<R> write(Request<R> request) {
        return sent(request.key(), request.operation(), 1);
    }

    @Override
    public <R extends @Nullable Object> R writeNow(Request<R> request) {
        return sentNow(request.key(), request.operation());
    }

    private <R extends @Nullable Object> CompletableFuture<R> sent(
            byte[] key, Supplier<? extends Operation<R>> operation, int attempt) {
        CompletableFuture<R> answer = home(key).submit(operation.get());
        return answer.handle((value, failure) -> failure)
                .thenCompose(
                        failure ->
                                failure == null || !isElsewhere(failure, attempt)
                                        ? answer
                                        : turned(failure, attempt)
                                                .thenCompose(
                                                        done -> sent(key, operation, attempt + 1)));
    }

    private <R extends @Nullable Object> R sentNow(
            byte[] key, Supplier<? extends Operation<R>> operation) {
        for (int attempt = 1; ; attempt++) {
            try {
                return askNow(home(key), operation.get());
            } catch (CacheException e) {
                if (!isElsewhere(e, attempt)) {
                    throw e;
                }
                turned(e, attempt).join();
            }
        }
    }

    /** Whether a node rejected a request because of its slot, and it may be sent again. */
    private static boolean isElsewhere(Throwable failure, int attempt) {
        String said = refusal(failure);
        for (String redirection : REDIRECTIONS) {
            if (said.startsWith(redirection)) {
                return attempt < ATTEMPTS_MAX;
            }
        }
        return false;
    }

    private static String refusal(Throwable failure) {
        Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
        String message = cause instanceof CacheException.Refused ? cause.getMessage() : null;
        return message == null ? "" : message;
    }

    /** Completes when the request may be sent again: with a new map, or after a pause. */
    private CompletableFuture<@Nullable Void> turned(Throwable failure, int attempt) {
        boolean moved = refusal(failure).startsWith(REDIRECTIONS[0]);
        if (moved && attempt == 1) {
            return refresh();
        }
        CompletableFuture<@Nullable Void> paused = new CompletableFuture<>();
        loops.next().schedule(() -> paused.complete(null), PAUSE_MS, TimeUnit.MILLISECONDS);
        return paused.thenCompose(done -> refresh());
    }

    @Override
    public synchronized void close() {
        looks.cancel(false);
        members.endpoints.values().forEach(Endpoint::close);
        spares.values().forEach(Endpoint::close);
        retired.close();
    }
}
