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
 * The queue of copies to one node.
 *
 * <p>For each key only the latest copy is queued, and at most one is in progress. A copy without an
 * answer is delivered again until the queue is shut, when the node is out. The queue reports copies
 * without an answer and too many copies.
 */
final class CopyQueue {
    private static final int UNDER_WAY_MAX = 128;

    /** Copies without a waiting caller are collected for this time and sent together. */
    private static final long GATHERING_MS = 1;

    private static final long PAUSE_MS_MIN = 5;
    private static final long PAUSE_MS_MAX = 80;

    /** When a copy is delivered. */
    enum Pace {
        /** At once: a caller waits for it. */
        AT_ONCE,
        /** Together with those of the next moment: one write of many costs far less. */
        SOON
    }

    /** Delivers copies and receives reports. */
    interface Target {
        /** Delivers a copy; null means the current item of the key's home. */
        CompletableFuture<@Nullable Void> deliver(byte[] key, @Nullable Item copy);

        /** {@code count} copies are queued. */
        void waiting(int count);

        /** The queue has exceeded its limit. */
        void full(String why);

        /** A copy had no answer; no copy has had an answer for {@code for_ms}. */
        void undelivered(long for_ms, String why);
    }

    private static final class Pending {
        final byte[] key;

        /** For callers that wait for the next delivery. */
        private CompletableFuture<Boolean> next = new CompletableFuture<>();

        /** For callers that wait for the delivery in progress. */
        private @Nullable CompletableFuture<Boolean> running;

        private @Nullable Item copy;
        private boolean waits;
        private boolean pulls;
        private boolean underWay;
        private boolean isReady;

        Pending(byte[] key) {
            this.key = key;
        }

        /**
         * Returns what to deliver next: first the copy, because its home may soon lose the item.
         */
        @Nullable Item begin() {
            Item first = copy;
            copy = null;
            isReady = false;
            underWay = true;
            if (first == null || !pulls) {
                waits = false;
                pulls = false;
                running = next;
                next = new CompletableFuture<>();
            }
            return first;
        }

        /** Completes the stages of all waiting callers. */
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

    /** Become ready when the pause is over. */
    private final ArrayDeque<Pending> resting = new ArrayDeque<>();

    private long pause_ms = PAUSE_MS_MIN;
    private long unansweredSince_ms = Long.MAX_VALUE;
    private boolean open = true;
    private boolean gathering;
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
     * Queues a copy, or with null the item of the key's home. Completes with true when the node has
     * this copy or a newer one. A failed delivery is repeated; the stage completes with false if
     * the queue is shut.
     */
    CompletableFuture<Boolean> add(byte[] key, @Nullable Item copy, Pace pace) {
        CompletableFuture<Boolean> done;
        boolean gathers;
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
            gathers = pace == Pace.SOON && !gathering;
            gathering |= gathers;
        } finally {
            lock.unlock();
        }
        target.waiting(count);
        if (count > queuedMax) {
            target.full("more than " + queuedMax + " changes wait");
        } else if (gathers) {
            ticks.later(GATHERING_MS, this::gathered);
        } else if (pace == Pace.AT_ONCE) {
            pump();
        }
        return done;
    }

    private void gathered() {
        lock.lock();
        try {
            gathering = false;
        } finally {
            lock.unlock();
        }
        pump();
    }

    private void put(Pending item, @Nullable Item copy) {
        Item waiting = item.copy;
        if (!item.waits) {
            item.waits = true;
            queued++;
        }
        if (copy == null) {
            item.pulls = true;
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

    /** Completes when all copies that are now queued or in progress are delivered. */
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

    /** Accepts copies from now on. */
    void open() {
        lock.lock();
        try {
            open = true;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Drops all copies and accepts none; the result completes the stages of the waiting callers.
     */
    Runnable shut() {
        ArrayDeque<Pending> given;
        lock.lock();
        try {
            open = false;
            given = new ArrayDeque<>(pending.values());
            pending.clear();
            ready.clear();
            resting.clear();
            unansweredSince_ms = Long.MAX_VALUE;
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
                copy = item.begin();
                underWay++;
                queued -= item.waits ? 0 : 1;
            } finally {
                lock.unlock();
            }
            target.deliver(item.key, copy)
                    .whenComplete((done, failure) -> answered(item, copy, failure));
        }
    }

    private void answered(Pending item, @Nullable Item copy, @Nullable Throwable failure) {
        CacheException known = failure == null ? null : Stages.known(failure);
        boolean unanswered = known != null && Replica.isNodesFault(known);
        boolean overloaded = known instanceof CacheException.Overloaded;
        CompletableFuture<Boolean> ended;
        long for_ms;
        long rests_ms = 0;
        lock.lock();
        try {
            underWay--;
            item.underWay = false;
            ended = item.running;
            item.running = null;
            for_ms = unansweredFor_ms(unanswered);
            if (pending.get(name(item.key)) == item) {
                if (unanswered || overloaded) {
                    rests_ms = rest(item, copy);
                } else {
                    goOn(item);
                }
                if (overloaded && ended != null) {
                    // The stage completes with the next attempt, which follows soon.
                    item.next.thenAccept(ended::complete);
                    ended = null;
                }
            }
        } finally {
            lock.unlock();
        }
        if (known != null && unanswered) {
            target.undelivered(for_ms, String.valueOf(known.getMessage()));
        }
        if (ended != null) {
            ended.complete(known == null);
        }
        if (rests_ms > 0) {
            ticks.later(rests_ms, this::rested);
        }
        pump();
    }

    private long unansweredFor_ms(boolean unanswered) {
        if (!unanswered) {
            unansweredSince_ms = Long.MAX_VALUE;
            pause_ms = PAUSE_MS_MIN;
            return 0;
        }
        long now_ms = ticks.now_ms();
        unansweredSince_ms = Math.min(unansweredSince_ms, now_ms);
        return now_ms - unansweredSince_ms;
    }

    /**
     * Queues it again for after the pause; returns the length of the pause if it starts now,
     * otherwise 0.
     */
    private long rest(Pending item, @Nullable Item copy) {
        item.isReady = true;
        put(item, copy);
        resting.add(item);
        return resting.size() == 1 ? pause_ms : 0;
    }

    private void rested() {
        lock.lock();
        try {
            pause_ms = Math.min(2 * pause_ms, PAUSE_MS_MAX);
            ready.addAll(resting);
            resting.clear();
        } finally {
            lock.unlock();
        }
        pump();
    }

    private void goOn(Pending item) {
        if (item.waits && !item.isReady) {
            item.isReady = true;
            ready.add(item);
        } else if (!item.waits) {
            pending.remove(name(item.key));
        }
    }
}
