package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.Node;
import cellar.client.internal.Stages;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.net.Loops;
import cellar.client.internal.net.Settings;
import cellar.client.internal.wire.ReadOperation;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Nodes that all have every item.
 *
 * <p>All clients derive the same order of the nodes from a key. The first node of it that is in is
 * the key's home. It is read, and it is changed before the caller gets an answer; a {@link
 * CopyQueue} copies the change to the other nodes. {@link Watch} decides which nodes are in, {@link
 * Changes} how items are changed, {@link Copier} how copies only become newer, {@link Filling} how
 * a node comes back.
 *
 * <p>A read that fails or misses goes to the next node. An item found there is added at the home
 * with its remaining TTL. A tombstone is a final answer.
 */
public final class ReplicatedCluster extends Cluster {
    private static final Logger LOG = LoggerFactory.getLogger(ReplicatedCluster.class);
    private static final long CLOSE_MS_MAX = 2000;

    /** Limit of repeated reads of a miss while the key's home changes. */
    private static final int READS_AGAIN_MAX = 3;

    /** The connections of a node: for requests to a home, and for all others. */
    private record Member(Node node, Endpoint home, Endpoint copy, Replica replica) {}

    private final Settings settings;
    private final Loops loops;
    private final int queuedMax;
    private final Watch watch;
    private final Changes changes;
    private final Map<String, Member> members = new ConcurrentHashMap<>();
    private boolean started;

    /** Starts without nodes; {@code ticker} returns nanoseconds. */
    public ReplicatedCluster(Settings settings, Loops loops, int queuedMax, LongSupplier ticker) {
        this.settings = settings;
        this.loops = loops;
        this.queuedMax = queuedMax;
        Ticks ticks =
                new Ticks() {
                    @Override
                    public long now_ms() {
                        return ticker.getAsLong() / 1_000_000;
                    }

                    @Override
                    public void later(long delay_ms, Runnable task) {
                        schedule(loops, delay_ms, task);
                    }
                };
        watch = new Watch(UUID.randomUUID().toString(), ticks, Timing.USUAL, this::homesChanged);
        changes = new Changes(watch, settings.timeout().toMillis());
    }

    /**
     * A loop that shuts down cancels scheduled tasks. Callers may wait for this one, so it then
     * runs at once.
     */
    private static void schedule(Loops loops, long delay_ms, Runnable task) {
        try {
            loops.next()
                    .schedule(task, delay_ms, TimeUnit.MILLISECONDS)
                    .addListener(
                            timer -> {
                                if (timer.isCancelled()) {
                                    task.run();
                                }
                            });
        } catch (RejectedExecutionException e) {
            task.run();
        }
    }

    // Nodes.

    /** Sets the nodes; a node that keeps its name may have a new address. */
    public synchronized void use(List<Node> nodes) {
        Map<String, Node> named = new ConcurrentHashMap<>();
        nodes.forEach(node -> named.put(name(node), node));
        List<Member> before = List.copyOf(members.values());
        for (Member member : before) {
            String name = member.replica().name();
            Node now = named.get(name);
            if (now == null) {
                watch.leave(member.replica());
                members.remove(name);
                close(member);
            } else if (!member.node().equals(now)) {
                Member moved = member(name, now);
                watch.move(member.replica(), moved.replica());
                members.put(name, moved);
                close(member);
            }
        }
        List<Replica> added = new ArrayList<>();
        named.forEach(
                (name, node) -> {
                    if (!members.containsKey(name)) {
                        Member member = member(name, node);
                        members.put(name, member);
                        added.add(member.replica());
                    }
                });
        if (started) {
            added.forEach(watch::join);
        } else {
            started = true;
            watch.start(added);
        }
    }

    private static String name(Node node) {
        return node.name().isEmpty() ? node.address() : node.name();
    }

    private Member member(String name, Node node) {
        String guard = new String(Watch.VIEW_KEY, StandardCharsets.US_ASCII);
        Endpoint home = new Endpoint(node, settings.guarded(guard), loops);
        Endpoint copy = new Endpoint(node, settings.quiet(), loops);
        Peer peer = new EndpointPeer(copy);
        Delivery target = new Delivery(watch, name, settings.metrics(), copy.name());
        CopyQueue queue = new CopyQueue(queuedMax, watch.ticks(), target);
        Replica replica =
                new Replica(name, new EndpointPeer(home), peer, queue, known -> found(home, known));
        return new Member(node, home, copy, replica);
    }

    /**
     * Reconnects at once to a node that has the view. Otherwise opens the first connection, to
     * detect whether the node is up.
     */
    private static void found(Endpoint home, boolean known) {
        if (known) {
            home.hurry();
        } else {
            home.start();
        }
    }

    private static void close(Member member) {
        member.home().close();
        member.copy().close();
    }

    @Override
    public Endpoint home(byte[] key) {
        return endpoint(homeOf(watch.homes(), key));
    }

    private static Replica homeOf(Homes homes, byte[] key) {
        Replica home = homes.home(Homes.hash(key));
        if (home == null) {
            throw new CacheException.Connection("no node has everything", null);
        }
        return home;
    }

    private static Endpoint endpoint(Replica replica) {
        return ((EndpointPeer) replica.home()).endpoint();
    }

    @Override
    public List<Endpoint> endpoints() {
        return members.values().stream().map(Member::home).toList();
    }

    @Override
    public boolean hasSecondChoice() {
        return true;
    }

    @Override
    public boolean isReserved(String key) {
        return key.startsWith(Watch.RESERVED);
    }

    @Override
    public CompletableFuture<@Nullable Void> ready() {
        return watch.fresh(watch.ticks().now_ms() + settings.timeout().toMillis());
    }

    /** Whether all nodes have all items; for tests. */
    public boolean isWhole() {
        return watch.isFresh() && watch.homes().known().size() == members.size();
    }

    @Override
    public int alsoRead() {
        return ReadOperation.FLAGS
                | ReadOperation.TTL
                | ReadOperation.VERSION
                | ReadOperation.MARKED;
    }

    // Reads and changes, asynchronous and blocking.

    @Override
    public <R extends @Nullable Object> CompletionStage<R> read(
            byte[] key, Supplier<ReadOperation<R>> read) {
        return read(key, read, READS_AGAIN_MAX);
    }

    private <R extends @Nullable Object> CompletionStage<R> read(
            byte[] key, Supplier<ReadOperation<R>> read, int again) {
        return watch.isFresh()
                ? submit(key, read, again)
                : ready().thenCompose(fresh -> submit(key, read, again));
    }

    private <R extends @Nullable Object> CompletionStage<R> submit(
            byte[] key, Supplier<ReadOperation<R>> read, int again) {
        Reading<R> reading = reading(key, read);
        return submit(reading)
                .thenCompose(
                        done ->
                                again > 0 && reading.mayHaveMissed()
                                        ? read(key, read, again - 1)
                                        : reading.answer());
    }

    private <R extends @Nullable Object> Reading<R> reading(
            byte[] key, Supplier<ReadOperation<R>> read) {
        Homes homes = watch.homes();
        return new Reading<>(watch, key, homes, homeOf(homes, key), read);
    }

    /** Completes when the read is finished. */
    private static <R extends @Nullable Object> CompletionStage<@Nullable Void> submit(
            Reading<R> reading) {
        return endpoint(reading.asked())
                .submit(reading.request())
                .handle((answer, failure) -> reading.goesOn())
                .thenCompose(
                        more -> more ? submit(reading) : CompletableFuture.completedFuture(null));
    }

    @Override
    public <R extends @Nullable Object> R readNow(byte[] key, Supplier<ReadOperation<R>> read) {
        Reading<R> reading = readOnce(key, read);
        for (int again = READS_AGAIN_MAX; again > 0 && reading.mayHaveMissed(); again--) {
            reading = readOnce(key, read);
        }
        return result(reading.answer());
    }

    private <R extends @Nullable Object> Reading<R> readOnce(
            byte[] key, Supplier<ReadOperation<R>> read) {
        if (!watch.isFresh()) {
            Stages.await(
                    ready().orTimeout(2 * settings.timeout().toMillis(), TimeUnit.MILLISECONDS));
        }
        Reading<R> reading = reading(key, read);
        do {
            endpoint(reading.asked()).call(reading.request());
        } while (reading.goesOn());
        return reading;
    }

    @Override
    public <R extends @Nullable Object> CompletionStage<R> write(Request<R> request) {
        return changes.make(request.key(), request.edit());
    }

    @Override
    public <R extends @Nullable Object> R writeNow(Request<R> request) {
        return Stages.await(
                changes.make(
                        request.key(),
                        request.edit(),
                        home -> ((EndpointPeer) home.home()).waiting()));
    }

    @Override
    public CompletionStage<@Nullable Void> flush(String command) {
        List<CompletableFuture<?>> parts = new ArrayList<>();
        for (Member member : members.values()) {
            parts.add(member.replica().copy().flush());
            if (watch.homes().view().state(member.replica().name()) != View.State.OUT) {
                // Sent after the flush on the same connection, so that the node has the view again.
                parts.add(watch.publisher().push(member.replica(), true));
            }
        }
        return CompletableFuture.allOf(parts.toArray(CompletableFuture[]::new))
                .thenApply(done -> null);
    }

    /** Sends the queued changes, as far as their nodes can be reached. */
    @Override
    public void close() {
        CompletableFuture<?> drained =
                CompletableFuture.allOf(
                        members.values().stream()
                                .map(member -> member.replica().queue().drained())
                                .toArray(CompletableFuture[]::new));
        try {
            drained.get(CLOSE_MS_MAX, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            LOG.info("the client ends before all copies are made", e);
        }
        watch.close();
        members.values().forEach(ReplicatedCluster::close);
    }
}
