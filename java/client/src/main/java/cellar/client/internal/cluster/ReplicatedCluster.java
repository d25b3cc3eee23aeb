package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.Node;
import cellar.client.internal.Stages;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.net.Loops;
import cellar.client.internal.net.Settings;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Every node holds everything.
 *
 * <p>Each key has an order of the nodes, the same for all clients. The first that all clients
 * believe is the key's home: it is read, and changed before the caller gets an answer; the others
 * are told by a {@link CopyQueue}. {@link Watch} says whom all believe, {@link Changes} how items
 * are changed, {@link Copier} how copies only become later, {@link Filling} how a node comes back.
 *
 * <p>A read that fails goes to the next node. A read that misses does too, and what it finds there
 * is added at home with the time it has left. A trace of a removal is an answer.
 */
public final class ReplicatedCluster extends Cluster {
    private static final Logger LOG = LoggerFactory.getLogger(ReplicatedCluster.class);
    private static final long CLOSE_MS_MAX = 2000;

    /** A node's connections: for what only a home is asked, and for the rest. */
    private record Member(Node node, Endpoint home, Endpoint copy, Replica replica) {}

    private final Settings settings;
    private final Loops loops;
    private final int queuedMax;
    private final Watch watch;
    private final Changes changes;
    private final Map<String, Member> members = new ConcurrentHashMap<>();
    private boolean started;

    /** Without nodes yet; {@code ticker} gives nanoseconds. */
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
                        loops.next().schedule(task, delay_ms, TimeUnit.MILLISECONDS);
                    }
                };
        watch = new Watch(UUID.randomUUID().toString(), ticks, Timing.USUAL, this::homesChanged);
        changes = new Changes(watch, settings.timeout().toMillis());
    }

    // Nodes.

    /** Uses these nodes from now on; a node that keeps its name may have another address. */
    public synchronized void use(List<Node> nodes) {
        Map<String, Node> named = new ConcurrentHashMap<>();
        nodes.forEach(node -> named.put(name(node), node));
        List<Member> before = List.copyOf(members.values());
        for (Member member : before) {
            if (!member.node().equals(named.get(member.replica().name()))) {
                watch.leave(member.replica());
                members.remove(member.replica().name());
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

    /** A node that answers again is not waited for; of one that does not, the state is known. */
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
        return endpoint(homeOf(key));
    }

    private Replica homeOf(byte[] key) {
        Replica home = watch.homes().home(Homes.hash(key));
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

    /** Whether all nodes have everything; for tests. */
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

    // Reading.

    @Override
    public <R extends @Nullable Object> CompletionStage<R> read(
            byte[] key, Supplier<ReadOperation<R>> read) {
        return watch.isFresh()
                ? readAt(homeOf(key), key, read)
                : ready().thenCompose(fresh -> readAt(homeOf(key), key, read));
    }

    private <R extends @Nullable Object> CompletionStage<R> readAt(
            Replica first, byte[] key, Supplier<ReadOperation<R>> read) {
        ReadOperation<R> one = read.get();
        return endpoint(first)
                .submit(one)
                .handle((answer, failure) -> one)
                .thenCompose(done -> readOn(key, read, first, one, List.of(first)));
    }

    /** Asks further nodes as long as those that were {@code tried} are no answer. */
    private <R extends @Nullable Object> CompletionStage<R> readOn(
            byte[] key,
            Supplier<ReadOperation<R>> read,
            Replica first,
            ReadOperation<R> one,
            List<Replica> tried) {
        Replica second = second(key, one, tried);
        if (second == null) {
            return one;
        }
        ReadOperation<R> other = read.get();
        return endpoint(second)
                .submit(other)
                .handle((answer, failure) -> other)
                .thenCompose(
                        done ->
                                isNoAnswer(one, other)
                                        ? readOn(
                                                key,
                                                read,
                                                first,
                                                isNodesFault(other) ? one : other,
                                                and(tried, second))
                                        : better(key, first, second, one, other));
    }

    private static List<Replica> and(List<Replica> tried, Replica more) {
        List<Replica> all = new ArrayList<>(tried);
        all.add(more);
        return all;
    }

    @Override
    public <R extends @Nullable Object> R readNow(byte[] key, Supplier<ReadOperation<R>> read) {
        if (!watch.isFresh()) {
            waitUntilReady();
        }
        Replica first = homeOf(key);
        ReadOperation<R> one = read.get();
        endpoint(first).call(one);
        List<Replica> tried = List.of(first);
        for (Replica second = second(key, one, tried);
                second != null;
                second = second(key, one, tried)) {
            ReadOperation<R> other = read.get();
            endpoint(second).call(other);
            if (!isNoAnswer(one, other)) {
                return result(better(key, first, second, one, other));
            }
            one = isNodesFault(other) ? one : other;
            tried = and(tried, second);
        }
        return result(one);
    }

    private void waitUntilReady() {
        try {
            ready().get(2 * settings.timeout().toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CacheException.Loading("interrupted", e);
        } catch (ExecutionException | TimeoutException e) {
            throw Stages.known(e.getCause() == null ? e : e.getCause());
        }
    }

    /** Who is asked as well, null for nobody: a miss without a trace of a removal may be a loss. */
    private @Nullable Replica second(byte[] key, ReadOperation<?> one, List<Replica> tried) {
        boolean failed = one.isCompletedExceptionally();
        if (failed ? !isNodesFault(one) : one.hit() || one.isGone()) {
            return null;
        }
        return watch.homes().next(Homes.hash(key), tried);
    }

    /** A miss at one node alone is no answer either, where the home has failed. */
    private static boolean isNoAnswer(ReadOperation<?> one, ReadOperation<?> other) {
        return isNodesFault(other)
                || one.isCompletedExceptionally() && other.isMiss() && !other.isGone();
    }

    private static boolean isNodesFault(CompletableFuture<?> failed) {
        try {
            failed.join();
            return false;
        } catch (RuntimeException e) {
            return Replica.isNodesFault(e);
        }
    }

    /** The answer of two; what only the second node has is added at home. */
    private <R extends @Nullable Object> ReadOperation<R> better(
            byte[] key,
            Replica first,
            Replica second,
            ReadOperation<R> one,
            ReadOperation<R> other) {
        Homes homes = watch.homes();
        boolean missed = !one.isCompletedExceptionally();
        if (other.isCompletedExceptionally() || missed && other.isMiss()) {
            return one;
        }
        if (missed && other.bytes() != null) {
            Item copy = EndpointPeer.found(other).copy(homes.numberOf(second));
            if (copy != null) {
                first.copy().store(key, copy, Peer.If.ABSENT, 0);
            }
        }
        return other;
    }

    // Changing.

    @Override
    public <R extends @Nullable Object> CompletionStage<R> write(Request<R> request) {
        return changes.make(request.key(), request.edit());
    }

    @Override
    public <R extends @Nullable Object> R writeNow(Request<R> request) {
        if (request.edit() instanceof Edit.Put<R> put && !put.item().isNumber()) {
            long hash = Homes.hash(request.key());
            if (watch.isFresh() && watch.settlesIn_ms(hash) == 0) {
                Homes homes = watch.homes();
                Replica home = homes.home(hash);
                if (home != null && putNow(request.key(), hash, put, home, homes)) {
                    return put.answer();
                }
            }
        }
        try {
            return changes.make(request.key(), request.edit()).get();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CacheException.Loading("interrupted", e);
        } catch (ExecutionException e) {
            throw Stages.known(e.getCause() == null ? e : e.getCause());
        }
    }

    /** Stores at home over a connection on which the caller waits; false if that was not enough. */
    private boolean putNow(byte[] key, long hash, Edit.Put<?> put, Replica home, Homes homes) {
        Item item = put.item().in(homes.view().number());
        StoreOperation store = EndpointPeer.storing(key, item, Peer.If.ANY, 0);
        endpoint(home).call(store);
        if (store.isCompletedExceptionally()) {
            if (!isNodesFault(store)) {
                result(store);
            }
            watch.lost(home, "a change was not answered");
            return false;
        }
        if (!watch.isHome(home, homes, hash)) {
            return false;
        }
        changes.spread(home, key, item.copied(homes.numberOf(home), store.newVersion()));
        return true;
    }

    @Override
    public CompletionStage<@Nullable Void> flush(String command) {
        List<CompletableFuture<?>> parts = new ArrayList<>();
        for (Member member : members.values()) {
            parts.add(member.replica().copy().flush());
            if (watch.homes().view().state(member.replica().name()) != View.State.OUT) {
                // Behind the flush on the same connection, so that the node knows the view again.
                parts.add(watch.push(member.replica(), true));
            }
        }
        return CompletableFuture.allOf(parts.toArray(CompletableFuture[]::new))
                .thenApply(done -> null);
    }

    /** Changes that wait are sent, as far as their nodes can be reached. */
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
