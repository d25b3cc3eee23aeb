package cellar.client.replication;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/**
 * All changes of one item with their times, to check reads.
 *
 * <p>An acknowledged change happened between its begin and its end. A failed one may have happened
 * until a while after its end, or not at all. A read is wrong if it returns a value that was
 * replaced by a change that began later and was acknowledged a second before the read.
 */
public final class History {
    /** The permitted age of a read, and how late a failed change may still happen. */
    public record Bounds(LongSupplier now_ns, long grace_ns, long late_ns) {
        /** With the clock of this machine. */
        static final Bounds REAL = new Bounds(System::nanoTime, 1_000_000_000, 2_000_000_000L);
    }

    /** Counts the errors of all items. */
    public static final class Faults {
        final AtomicLong reads = new AtomicLong();
        final AtomicLong writes = new AtomicLong();
        final AtomicLong failures = new AtomicLong();

        /** Acknowledged values that are missing. */
        public final AtomicLong lost = new AtomicLong();

        final AtomicLong resurrected = new AtomicLong();
        final AtomicLong older = new AtomicLong();
        final AtomicLong wrongCounters = new AtomicLong();
        final List<String> examples = new ArrayList<>();

        /** Counts an error. */
        public void add(AtomicLong kind, String example) {
            kind.incrementAndGet();
            synchronized (examples) {
                if (examples.size() < 20) {
                    examples.add(example);
                }
            }
        }

        /** Returns the number of failed requests. */
        public long failed() {
            return failures.get();
        }

        /** Returns the number of errors of all kinds. */
        public long sum() {
            return lost.get() + resurrected.get() + older.get() + wrongCounters.get();
        }

        @Override
        public String toString() {
            return String.format(
                    Locale.ROOT,
                    "%d writes (%d failed), %d reads: %d lost, %d resurrected, %d older, "
                            + "%d wrong counters%s",
                    writes.get(),
                    failures.get(),
                    reads.get(),
                    lost.get(),
                    resurrected.get(),
                    older.get(),
                    wrongCounters.get(),
                    examples.isEmpty() ? "" : "\n  " + String.join("\n  ", examples));
        }
    }

    /** One change. */
    public static final class Write {
        final int number;
        final boolean removes;
        final String by;
        final long begin_ns;
        long until_ns = Long.MAX_VALUE;
        boolean acknowledged;

        Write(int number, boolean removes, String by, long begin_ns) {
            this.number = number;
            this.removes = removes;
            this.by = by;
            this.begin_ns = begin_ns;
        }

        @Override
        public String toString() {
            String done = acknowledged ? "" : until_ns == Long.MAX_VALUE ? " under way" : " failed";
            return (removes ? "removal " : "value ") + number + " by " + by + done;
        }
    }

    private static final int RECENT_MAX = 400;

    private final Bounds bounds;
    private final String key;
    private final Faults faults;
    private final List<Write> writes = new ArrayList<>();

    /** Acknowledged changes in the order of their ends, each with the latest begin up to it. */
    private final List<Write> ended = new ArrayList<>();

    private final List<Write> latest = new ArrayList<>();

    /** The last events, which are printed with the first wrong read. */
    private final ArrayDeque<String> recent = new ArrayDeque<>();

    /** The history of one item. */
    public History(String key, Faults faults, Bounds bounds) {
        this.bounds = bounds;
        this.key = key;
        this.faults = faults;
        Write never = new Write(0, true, "nobody", Long.MIN_VALUE);
        never.until_ns = Long.MIN_VALUE;
        never.acknowledged = true;
        writes.add(never);
    }

    private void note(String event) {
        if (recent.size() == RECENT_MAX) {
            recent.remove();
        }
        recent.add(bounds.now_ns().getAsLong() / 1_000_000 + " ms: " + event);
    }

    /** A change begins. */
    public synchronized Write begin(boolean removes, String by) {
        Write write = new Write(writes.size(), removes, by, bounds.now_ns().getAsLong());
        writes.add(write);
        note("begins " + write);
        faults.writes.incrementAndGet();
        return write;
    }

    /** Returns the value to store for {@code write}. */
    public String value(Write write) {
        return key + "=" + write.number;
    }

    /** A change ended. */
    public synchronized void end(Write write, boolean acknowledged) {
        long now_ns = bounds.now_ns().getAsLong();
        write.acknowledged = acknowledged;
        write.until_ns = acknowledged ? now_ns : now_ns + bounds.late_ns();
        note("ends " + write);
        if (!acknowledged) {
            faults.failures.incrementAndGet();
            return;
        }
        Write before = latest.isEmpty() ? null : latest.get(latest.size() - 1);
        ended.add(write);
        latest.add(before == null || write.begin_ns > before.begin_ns ? write : before);
    }

    /** Checks a read by {@code by} that began at {@code begin_ns}. */
    public synchronized void read(String by, long begin_ns, String value) {
        faults.reads.incrementAndGet();
        note(by + " reads " + value + ", asked " + begin_ns / 1_000_000 + " ms");
        Write due = due(begin_ns - bounds.grace_ns());
        if (due == null) {
            return;
        }
        Write found = value == null ? lastRemoval() : writes.get(number(value));
        if (found.until_ns >= due.begin_ns) {
            return;
        }
        long since_ms = (begin_ns - due.until_ns) / 1_000_000;
        String example =
                String.format(
                        Locale.ROOT,
                        "%s: %s read %s %d ms after %s",
                        key,
                        by,
                        value == null ? "nothing" : found,
                        since_ms,
                        due);
        String history = example + "\n    " + String.join("\n    ", recent);
        recent.clear();
        if (value == null) {
            faults.add(faults.lost, history);
        } else {
            faults.add(due.removes ? faults.resurrected : faults.older, history);
        }
    }

    /** Of the changes acknowledged before {@code time_ns}, returns the one that began last. */
    private Write due(long time_ns) {
        int from = 0;
        int to = ended.size();
        while (from < to) {
            int middle = (from + to) >>> 1;
            if (ended.get(middle).until_ns < time_ns) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        return from == 0 ? null : latest.get(from - 1);
    }

    private Write lastRemoval() {
        Write last = writes.get(0);
        for (int i = writes.size() - 1; i > Math.max(0, writes.size() - 200); i--) {
            Write write = writes.get(i);
            if (write.removes && write.until_ns > last.until_ns) {
                last = write;
            }
        }
        return last;
    }

    private static int number(String value) {
        return Integer.parseInt(value.substring(value.indexOf('=') + 1));
    }
}
