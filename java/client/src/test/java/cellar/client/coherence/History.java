package cellar.client.coherence;

import java.util.ArrayList;
import java.util.List;

/**
 * What happened to one key, which only one thread changes: each change has the next number.
 *
 * <p>Judges reads: what was acknowledged long enough before a read began must be in it.
 */
final class History {
    /** What is wrong with a read. */
    enum Wrong {
        /** A value from before an acknowledged one. */
        OLDER,
        /** A value from before an acknowledged removal. */
        RESURRECTED,
        /** Nothing, though a value was acknowledged and nobody has removed it. */
        MISSING,
        /** A value that nobody has stored. */
        INVENTED
    }

    private static final class Change {
        final boolean removal;
        final long begin_ns;
        long acknowledged_ns = Long.MAX_VALUE;

        Change(boolean removal, long begin_ns) {
            this.removal = removal;
            this.begin_ns = begin_ns;
        }
    }

    private final List<Change> changes = new ArrayList<>();

    /** A change begins; its number, from 1. */
    synchronized int begin(boolean removal) {
        changes.add(new Change(removal, System.nanoTime()));
        return changes.size();
    }

    /** The last change has been acknowledged. */
    synchronized void acknowledged() {
        changes.get(changes.size() - 1).acknowledged_ns = System.nanoTime();
    }

    /**
     * Judges a read that began at {@code begin_ns} and is over.
     *
     * @param found the number that was read, 0 for nothing
     * @param bound_ns how long before the read a change must have been acknowledged to count
     * @param lost_ns when a server last lost what it had
     */
    synchronized @org.jspecify.annotations.Nullable Wrong judge(
            int found, long begin_ns, long bound_ns, long lost_ns) {
        if (found > changes.size()) {
            return Wrong.INVENTED;
        }
        int required = last(begin_ns - bound_ns);
        if (required == 0) {
            return null;
        }
        if (found == 0) {
            return isMissing(required, lost_ns) ? Wrong.MISSING : null;
        }
        if (found >= required) {
            return null;
        }
        boolean removed = changes.subList(found, required).stream().anyMatch(c -> c.removal);
        return removed ? Wrong.RESURRECTED : Wrong.OLDER;
    }

    private boolean isMissing(int required, long lost_ns) {
        boolean removed =
                changes.subList(required - 1, changes.size()).stream().anyMatch(c -> c.removal);
        return !removed && changes.get(required - 1).begin_ns - lost_ns > 0;
    }

    /** How old {@code found} was when the read began: since when something newer was there. */
    synchronized long staleness_ns(int found, long begin_ns) {
        if (found == 0 || found >= changes.size()) {
            return 0;
        }
        long newer_ns = changes.get(found).acknowledged_ns;
        return newer_ns == Long.MAX_VALUE ? 0 : Math.max(0, begin_ns - newer_ns);
    }

    /** The number of the last change acknowledged by then; 0 for none. */
    private int last(long by_ns) {
        for (int number = changes.size(); number > 0; number--) {
            if (changes.get(number - 1).acknowledged_ns - by_ns <= 0) {
                return number;
            }
        }
        return 0;
    }
}
