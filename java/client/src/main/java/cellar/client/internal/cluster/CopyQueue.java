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
 * <p>Of one key only the latest waits, and one is under way. What has no answer is delivered again
 * and again, until the queue is shut because the node is not believed any more; that it has none,
 * or that there are too many, is reported.
 */
final class CopyQueue {
    private static final int UNDER_WAY_MAX = 128;

    /** So long copies that nobody waits for are gathered, to be sent together. */
    private static final long GATHERING_MS = 1;

    private static final long PAUSE_MS_MIN = 5;
    private static final long PAUSE_MS_MAX = 80;

    /** When a copy is delivered. */
    enum Pace {
        /** Somebody waits for it. */
        AT_ONCE,
        /** With those that come in the next moment: many in one write cost far less. */
        SOON
    }

    /** Who delivers, and who is told. */
    interface Target {
        /** Delivers a copy; null for what the item's home has. */
        CompletableFuture<@Nullable Void> deliver(byte[] key, @Nullable Item copy);

        /** So many copies wait. */
        void waiting(int count);

        /** The queue takes no more. */
        void full(String why);

        /** A copy had no answer, nor had any other for so long. */
        void undelivered(long for_ms, String why);
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

        /** What is delivered now: first the copy, which its home may not have for long. */
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

    /** Are ready when the pause is over. */
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
     * Queues a copy, null for what the item's home has; completes with whether it, or a later one,
     * is known to be there. What is not is tried again, unless the queue is shut.
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
                    // Who waits hears of the next attempt, which is not far.
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

    /** Puts it back for after a pause; how long that is if it begins now, else 0. */
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
