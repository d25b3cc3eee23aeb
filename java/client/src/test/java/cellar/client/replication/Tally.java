package cellar.client.replication;

import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * Checks the steps of one counter: each acknowledged step happens once, and each failed one at most
 * once.
 */
public final class Tally {
    private final History.Bounds bounds;
    private final String key;
    private final History.Faults faults;
    private final AtomicLong begun = new AtomicLong();
    private final Set<Long> numbers = new HashSet<>();
    private final ArrayDeque<long[]> ended = new ArrayDeque<>();
    private long acknowledged;
    private long settled;

    /** The steps of one counter. */
    public Tally(String key, History.Faults faults, History.Bounds bounds) {
        this.bounds = bounds;
        this.key = key;
        this.faults = faults;
    }

    /** A step begins. */
    public void begin() {
        begun.incrementAndGet();
        faults.writes.incrementAndGet();
    }

    /** A step has failed. */
    public void failed() {
        faults.failures.incrementAndGet();
    }

    /** A step was acknowledged. */
    public synchronized void end(String by, @Nullable Long number) {
        acknowledged++;
        ended.add(new long[] {bounds.now_ns().getAsLong(), acknowledged});
        if (number == null || !numbers.add(number)) {
            faults.add(
                    faults.wrongCounters,
                    key + ": a step of " + by + " came to " + number + " again");
        }
    }

    /** Returns the minimum number that a read which begins now must find. */
    public synchronized long due() {
        long before_ns = bounds.now_ns().getAsLong() - bounds.grace_ns();
        while (!ended.isEmpty() && ended.peek()[0] < before_ns) {
            settled = ended.poll()[1];
        }
        return settled;
    }

    /** Checks the number that was read. */
    public void read(String by, long due, @Nullable Long number) {
        faults.reads.incrementAndGet();
        long most = begun.get();
        if (number == null ? due > 0 : number < due || number > most) {
            faults.add(
                    faults.wrongCounters,
                    key + ": " + by + " read " + number + ", not " + due + " to " + most);
        }
    }
}
