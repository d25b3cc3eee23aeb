package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/**
 * Copies on their way to one node.
 *
 * <p>Of one key only the latest waits, and one is under way. What cannot be delivered, or does not
 * fit, is reported, because the node is not to be believed any more then.
 */
final class CopyQueue {
    private static final int UNDER_WAY_MAX = 128;
    private static final long PAUSE_MS = 5;

    /** Who delivers, and who is told. */
    interface Target {
        /** Delivers a copy; null for what the item's home has. */
        CompletableFuture<@Nullable Void> deliver(byte[] key, @Nullable Item copy);

        /** So many copies wait. */
        void waiting(int count);

        /** The node lacks a change from now on. */
        void undelivered(String why, boolean full);
    }

    private static final class Pending {
        final byte[] key;

        /** Of those who wait for what is not under way yet. */
        private CompletableFuture<Boolean> next = new CompletableFuture<>();

        /** Of those who wait for what is. */
        private @Nullable CompletableFuture<Boolean> running;

        private @Nullable Item copy;
        private boolean waits;
        private boolean pulls;
        private boolean underWay;
        private boolean isReady;

        Pending(byte[] key) {
            this.key = key;
        }

        /** Tells all who wait. */
        void end(boolean there) {
            CompletableFuture<Boolean> first = running;
            next.complete(there);
            if (first != null) {
                first.complete(there);
            }
        }
    }

    private final int queuedMax;
    private final Ticks ticks;
    private final Target target;
    private final BiFunction<Item, Item, Boolean> later;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<String, Pending> pending = new HashMap<>();
    private final ArrayDeque<Pending> ready = new ArrayDeque<>();
    private boolean open = true;
    private int queued;
    private int underWay;

    CopyQueue(int queuedMax, Ticks ticks, Target target) {
        this.queuedMax = queuedMax;
        this.ticks = ticks;
        this.target = target;
        this.later =
                (copy, waiting) -> {
                    Integer order = new Found(waiting, 0, false).compare(copy);
                    return order != null && order > 0;
                };
    }

    /**
     * Queues a copy, null for what the item's home has; completes with whether it, or a later one,
     * is there.
     */
    CompletableFuture<Boolean> add(byte[] key, @Nullable Item copy) {
        CompletableFuture<Boolean> done;
        int count;
        lock.lock();
        try {
            if (!open) {
                return CompletableFuture.completedFuture(false);
            }
            Pending item = pending.computeIfAbsent(name(key), name -> new Pending(key));
            done = item.next;
            put(item, copy);
            count = queued;
        } finally {
            lock.unlock();
        }
        target.waiting(count);
        if (count > queuedMax) {
            target.undelivered("more than " + queuedMax + " changes wait", true);
        } else {
            pump();
        }
        return done;
    }

    private void put(Pending item, @Nullable Item copy) {
        Item waiting = item.copy;
        if (!item.waits) {
            item.waits = true;
            item.pulls = copy == null;
            item.copy = copy;
            queued++;
        } else if (copy == null || item.pulls) {
            item.pulls = true;
            item.copy = null;
        } else if (waiting == null || later.apply(copy, waiting)) {
            item.copy = copy;
        }
        if (!item.underWay && !item.isReady) {
            item.isReady = true;
            ready.add(item);
        }
    }

    private static String name(byte[] key) {
        return new String(key, StandardCharsets.ISO_8859_1);
    }

    /** Completes when nothing is on its way. */
    CompletableFuture<?> drained() {
        lock.lock();
        try {
            return CompletableFuture.allOf(
                    pending.values().stream()
                            .map(item -> item.waits ? item.next : item.running)
                            .toArray(CompletableFuture[]::new));
        } finally {
            lock.unlock();
        }
    }

    /** Takes copies from now on. */
    void open() {
        lock.lock();
        try {
            open = true;
        } finally {
            lock.unlock();
        }
    }

    /** Gives all copies up and takes none; what is returned tells those who wait for them. */
    Runnable shut() {
        ArrayDeque<Pending> given;
        lock.lock();
        try {
            open = false;
            given = new ArrayDeque<>(pending.values());
            pending.clear();
            ready.clear();
            queued = 0;
        } finally {
            lock.unlock();
        }
        return () -> given.forEach(item -> item.end(false));
    }

    private void pump() {
        while (true) {
            Pending item;
            Item copy;
            lock.lock();
            try {
                item = underWay < UNDER_WAY_MAX ? ready.poll() : null;
                if (item == null) {
                    return;
                }
                item.isReady = false;
                item.waits = false;
                item.underWay = true;
                item.running = item.next;
                item.next = new CompletableFuture<>();
                copy = item.pulls ? null : item.copy;
                item.copy = null;
                underWay++;
                queued--;
            } finally {
                lock.unlock();
            }
            target.deliver(item.key, copy)
                    .whenComplete((done, failure) -> answered(item, copy, failure));
        }
    }

    private void answered(Pending item, @Nullable Item copy, @Nullable Throwable failure) {
        CacheException known = failure == null ? null : Stages.known(failure);
        boolean again = known instanceof CacheException.Overloaded;
        CompletableFuture<Boolean> ended;
        lock.lock();
        try {
            underWay--;
            item.underWay = false;
            ended = item.running;
            item.running = null;
            boolean current = pending.get(name(item.key)) == item;
            if (current && again) {
                put(item, copy);
                CompletableFuture<Boolean> first = ended;
                ended = null;
                if (first != null) {
                    item.next.thenAccept(first::complete);
                }
            } else if (current && item.waits && !item.isReady) {
                item.isReady = true;
                ready.add(item);
            } else if (current && !item.waits) {
                pending.remove(name(item.key));
            }
        } finally {
            lock.unlock();
        }
        if (known != null && Replica.isNodesFault(known)) {
            target.undelivered(String.valueOf(known.getMessage()), false);
        }
        if (ended != null) {
            ended.complete(known == null);
        }
        if (again) {
            ticks.later(PAUSE_MS, this::pump);
        } else {
            pump();
        }
    }
}
