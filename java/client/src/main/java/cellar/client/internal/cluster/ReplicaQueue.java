package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.wire.Operation;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Changes on their way to one copy.
 *
 * <p>Those of one key go one after the other; a change that replaces the item does away with those
 * that still wait. What cannot be delivered, or does not fit, is reported, because the copy is not
 * true any more then.
 */
final class ReplicaQueue {
    private static final int UNDER_WAY_MAX = 128;
    private static final long PAUSE_MS = 5;

    private static final class Pending {
        final String key;
        final ArrayDeque<Supplier<Operation<?>>> changes = new ArrayDeque<>();
        final CompletableFuture<@Nullable Void> done = new CompletableFuture<>();
        boolean underWay;
        boolean isReady;

        Pending(String key) {
            this.key = key;
        }
    }

    private final Endpoint endpoint;
    private final int queuedMax;
    private final Consumer<String> undelivered;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<String, Pending> pending = new HashMap<>();
    private final ArrayDeque<Pending> ready = new ArrayDeque<>();
    private int queued;
    private int underWay;

    ReplicaQueue(Endpoint endpoint, int queuedMax, Consumer<String> undelivered) {
        this.endpoint = endpoint;
        this.queuedMax = queuedMax;
        this.undelivered = undelivered;
    }

    /** Queues a change; completes when all of the key's changes are delivered or given up. */
    CompletableFuture<@Nullable Void> add(String key, Change change) {
        boolean full;
        CompletableFuture<@Nullable Void> done;
        lock.lock();
        try {
            Pending item = pending.computeIfAbsent(key, Pending::new);
            done = item.done;
            if (change.replaces()) {
                queued -= item.changes.size();
                item.changes.clear();
            }
            item.changes.add(change.operation());
            queued++;
            if (!item.underWay) {
                ready(item);
            }
            full = queued > queuedMax;
        } finally {
            lock.unlock();
        }
        endpoint.settings().metrics().replicating(endpoint.name(), queued);
        if (full) {
            endpoint.settings().metrics().overloaded(endpoint.name(), "replication");
            undelivered.accept("more than " + queuedMax + " changes wait");
        } else {
            pump();
        }
        return done;
    }

    /** Completes when no change of {@code key} is on its way; null if there is none. */
    @Nullable CompletableFuture<@Nullable Void> settled(String key) {
        lock.lock();
        try {
            Pending item = pending.get(key);
            return item == null ? null : item.done;
        } finally {
            lock.unlock();
        }
    }

    /** Completes when nothing is on its way. */
    CompletableFuture<?> drained() {
        lock.lock();
        try {
            return CompletableFuture.allOf(
                    pending.values().stream()
                            .map(item -> item.done)
                            .toArray(CompletableFuture[]::new));
        } finally {
            lock.unlock();
        }
    }

    /** Gives all changes up; what is returned tells those who wait for them. */
    Runnable clear() {
        ArrayDeque<Pending> given;
        lock.lock();
        try {
            given = new ArrayDeque<>(pending.values());
            pending.clear();
            ready.clear();
            queued = 0;
        } finally {
            lock.unlock();
        }
        return () -> given.forEach(item -> item.done.complete(null));
    }

    /** Puts a key whose changes may go into its row, once. */
    private void ready(Pending item) {
        if (!item.isReady) {
            item.isReady = true;
            ready.add(item);
        }
    }

    private void pump() {
        while (true) {
            Pending item;
            Supplier<Operation<?>> change;
            lock.lock();
            try {
                item = underWay < UNDER_WAY_MAX ? ready.poll() : null;
                change = item == null ? null : item.changes.poll();
                if (item == null || change == null) {
                    return;
                }
                item.isReady = false;
                item.underWay = true;
                underWay++;
                queued--;
            } finally {
                lock.unlock();
            }
            Supplier<Operation<?>> sent = change;
            Pending of = item;
            endpoint.submit(change.get())
                    .whenComplete((answer, failure) -> answered(of, sent, failure));
        }
    }

    private void answered(
            Pending item, Supplier<Operation<?>> change, @Nullable Throwable failure) {
        CacheException known = failure == null ? null : Stages.known(failure);
        boolean later = known instanceof CacheException.Overloaded;
        boolean finished;
        lock.lock();
        try {
            underWay--;
            item.underWay = false;
            boolean current = pending.get(item.key) == item;
            if (later && current && item.changes.isEmpty()) {
                item.changes.addFirst(change);
                queued++;
            }
            finished = current && item.changes.isEmpty();
            if (finished) {
                pending.remove(item.key);
            } else if (current) {
                ready(item);
            }
        } finally {
            lock.unlock();
        }
        if (finished) {
            item.done.complete(null);
        }
        if (known != null && !later && !(known instanceof CacheException.Refused)) {
            undelivered.accept(String.valueOf(known.getMessage()));
        } else if (later) {
            endpoint.loop().schedule(this::pump, PAUSE_MS, TimeUnit.MILLISECONDS);
        } else {
            pump();
        }
    }
}
