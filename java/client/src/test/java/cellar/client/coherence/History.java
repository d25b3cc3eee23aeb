package cellar.client.coherence;

import java.util.ArrayList;
import java.util.List;

/**
 * The changes of one key, which only one thread changes: each change has the next number.
 *
 * <p>Checks reads: a change that was acknowledged long enough before a read began must be visible
 * to it.
 */
final class History {
    /** The kinds of wrong reads. */
    enum Wrong {
        /** A value that is older than an acknowledged one. */
        OLDER,
        /** A value that is older than an acknowledged delete. */
        RESURRECTED,
        /** A miss, although a value was acknowledged and not deleted. */
        MISSING,
        /** A value that was never stored. */
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

    /** A change begins; returns its number, from 1. */
    synchronized int begin(boolean removal) {
        changes.add(new Change(removal, System.nanoTime()));
        return changes.size();
    }

    /** The last change was acknowledged. */
    synchronized void acknowledged() {
        changes.get(changes.size() - 1).acknowledged_ns = System.nanoTime();
    }

    /**
     * Checks a completed read that began at {@code begin_ns}.
     *
     * @param found the number that was read, 0 for a miss
     * @param bound_ns how long before the read a change must have been acknowledged to count
     * @param lost_ns when a server last lost its items
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

    /** Returns for how long {@code found} had been outdated when the read began. */
    synchronized long staleness_ns(int found, long begin_ns) {
        if (found == 0 || found >= changes.size()) {
            return 0;
        }
        long newer_ns = changes.get(found).acknowledged_ns;
        return newer_ns == Long.MAX_VALUE ? 0 : Math.max(0, begin_ns - newer_ns);
    }

    /** Returns the number of the last change acknowledged by then; 0 for none. */
    private int last(long by_ns) {
        for (int number = changes.size(); number > 0; number--) {
            if (changes.get(number - 1).acknowledged_ns - by_ns <= 0) {
                return number;
            }
        }
        return 0;
    }
}
