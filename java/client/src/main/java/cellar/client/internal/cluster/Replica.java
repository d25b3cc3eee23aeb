package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.wire.StatsOperation;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One node that holds a copy of everything, and whether it is believed.
 *
 * <pre>
 * TRUSTED --connection lost, change undelivered--> LOST --back--> FILLING --filled--> TRUSTED
 *    ^                                               |
 *    +-- back, the same process, nothing undelivered-+
 * </pre>
 *
 * A lost node is not read and gets no changes; one that is being filled gets changes only, and
 * nothing but its filling makes it trusted.
 *
 * <p>{@link #lock} orders the steps from one state to another with what they are decided by. It is
 * taken inside {@link ReplicatedCluster#betweenChanges}, never around it.
 */
final class Replica implements Endpoint.Listener {
    /** Whether a node is believed. */
    enum State {
        TRUSTED,
        LOST,
        FILLING
    }

    private static final Logger LOG = LoggerFactory.getLogger(Replica.class);

    private final Endpoint endpoint;
    private final ReplicatedCluster cluster;
    private final ReplicaQueue queue;
    private final Set<String> removed = ConcurrentHashMap.newKeySet();
    private final int removedMax;
    private final AtomicBoolean asksAgain = new AtomicBoolean();
    private final ReentrantLock lock = new ReentrantLock();
    private volatile State state = State.TRUSTED;
    private volatile int losses;
    private boolean undelivered;
    private @Nullable String identity;
    private @Nullable Filling filling;

    Replica(Endpoint endpoint, ReplicatedCluster cluster, int queuedMax) {
        this.endpoint = endpoint;
        this.cluster = cluster;
        this.removedMax = queuedMax;
        this.queue = new ReplicaQueue(endpoint, queuedMax, this::distrust);
        endpoint.listen(this);
        endpoint.start();
    }

    Endpoint endpoint() {
        return endpoint;
    }

    boolean isTrusted() {
        return state == State.TRUSTED && !endpoint.isDown();
    }

    /** How often it has been lost; who copies from it has nothing if this changes meanwhile. */
    int losses() {
        return losses;
    }

    /** Sends a change some time; completes when it is there or does not matter any more. */
    CompletableFuture<@Nullable Void> change(byte[] key, Change change) {
        if (state == State.LOST) {
            lose(true);
            return CompletableFuture.completedFuture(null);
        }
        String name = name(key);
        if (state == State.FILLING && change.removes()) {
            removed.add(name);
            if (removed.size() > removedMax) {
                distrust("too many removals while it is filled");
            }
        }
        return queue.add(name, change);
    }

    /** Null if no change of {@code key} is on its way, else completes when it is there. */
    @Nullable CompletableFuture<@Nullable Void> settled(byte[] key) {
        return queue.settled(name(key));
    }

    CompletableFuture<?> drained() {
        return endpoint.isDown() ? CompletableFuture.completedFuture(null) : queue.drained();
    }

    private static String name(byte[] key) {
        return new String(key, StandardCharsets.ISO_8859_1);
    }

    /** Whether {@code key} was removed since the filling began. */
    boolean wasRemoved(byte[] key) {
        return removed.contains(name(key));
    }

    /** The copy may lack a change: it is filled anew before it is read again. */
    void distrust(String why) {
        if (lose(true)) {
            LOG.info("{} is not read until it is filled: {}", endpoint.name(), why);
            if (endpoint.isReady()) {
                endpoint.loop().execute(this::check);
            }
        }
    }

    private void become(State next) {
        state = next;
        cluster.trustChanged();
    }

    /** Not believed from now on; false if it was not before. */
    private boolean lose(boolean lacksChange) {
        Runnable given;
        lock.lock();
        try {
            undelivered |= lacksChange || state == State.FILLING;
            if (state == State.LOST) {
                return false;
            }
            losses++;
            become(State.LOST);
            if (filling != null) {
                filling.stop();
                filling = null;
            }
            removed.clear();
            given = queue.clear();
        } finally {
            lock.unlock();
        }
        given.run();
        return true;
    }

    @Override
    public void lost(Endpoint which) {
        lose(!queue.drained().isDone());
    }

    @Override
    public void back(Endpoint which) {
        endpoint.loop().execute(this::check);
    }

    /** Finds out which process this is, and what has to be done before it is read. */
    private void check() {
        endpoint.submit(new StatsOperation()).whenComplete(this::identified);
    }

    private void identified(@Nullable Map<String, String> stats, @Nullable Throwable failure) {
        if (stats == null || failure != null) {
            // A connection that broke is looked at when it is back; one that stands is asked again.
            if (endpoint.isReady() && asksAgain.compareAndSet(false, true)) {
                cluster.later(this::askAgain);
            }
            return;
        }
        String now = stats.get("pid") + "/" + started(stats);
        Filling begun = cluster.betweenChanges(() -> identified(now));
        if (begun != null) {
            begun.run().whenComplete((copied, failed) -> filled(begun, copied, failed));
        }
    }

    private void askAgain() {
        asksAgain.set(false);
        check();
    }

    /** What it takes to believe the node, which is the process {@code now}; null for nothing. */
    private @Nullable Filling identified(String now) {
        lock.lock();
        try {
            String before = identity;
            identity = now;
            if (state != State.LOST) {
                return null;
            }
            if (!undelivered && (before == null || same(before, now))) {
                become(State.TRUSTED);
                return null;
            }
            undelivered = false;
            Filling begun = new Filling(cluster, this);
            filling = begun;
            become(State.FILLING);
            return begun;
        } finally {
            lock.unlock();
        }
    }

    /** When the process started, by its own clock, to within the seconds it counts in. */
    private static long started(Map<String, String> stats) {
        try {
            return Long.parseLong(stats.getOrDefault("time", "0"))
                    - Long.parseLong(stats.getOrDefault("uptime", "0"));
        } catch (NumberFormatException e) {
            throw new CacheException.Protocol("stats without numbers");
        }
    }

    private static boolean same(String before, String now) {
        String[] one = before.split("/");
        String[] other = now.split("/");
        long apart_s = Math.abs(Long.parseLong(one[1]) - Long.parseLong(other[1]));
        return one[0].equals(other[0]) && apart_s <= 2;
    }

    private void filled(Filling which, @Nullable Integer copied, @Nullable Throwable failure) {
        lock.lock();
        try {
            if (filling != which) {
                return;
            }
            if (failure == null) {
                LOG.info("{} is filled with {} items", endpoint.name(), copied);
                filling = null;
                removed.clear();
                become(State.TRUSTED);
                return;
            }
        } finally {
            lock.unlock();
        }
        LOG.warn("{} could not be filled", endpoint.name(), failure);
        cluster.later(() -> again(which));
    }

    private void again(Filling failed) {
        if (!failed.isStopped()) {
            distrust("filling failed");
        }
    }
}
