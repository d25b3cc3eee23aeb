package cellar.client.internal.net;

/**
 * Whether a reader should look for bytes a while before it sleeps.
 *
 * <p>Reads are tried both ways and timed; the way that was clearly faster, or sleeping, is kept for
 * many reads, and both are tried again. Looking costs processor time, so where others want that it
 * is slower and not chosen, and given up before its time if several reads close together are held
 * up. What wanted the processor may be gone soon, as a compiler is that has just translated this
 * very code: after looking was not worth it, it is tried again soon, then less and less often. The
 * first half of each trial does not count: a reader that sleeps and the server that wakes it may
 * move to one processor after a while, which is another speed. Belongs to one reader at a time.
 */
final class Looking {
    static final int SLEEPING = 1024;
    static final int LOOKING = 256;
    static final int TRIAL = SLEEPING + LOOKING;

    /** For so many reads looking is kept, and sleeping at most. */
    static final int KEPT = 1 << 15;

    /** For so many reads sleeping is kept when looking was not worth it for the first time. */
    static final int SLEPT_MIN = 1 << 10;

    private static final double CLEARLY = 0.85;

    /** A longer read was held up by something else, and counts no more than this. */
    static final long READ_NS_MAX = 500_000;

    /** So many held up, with fewer than {@link #CALM} others between them, are several. */
    static final int HELD_UP_MAX = 4;

    private static final int CALM = 16;

    private long sleeping_ns;
    private long looking_ns;
    private int reads;
    private int kept;
    private int slept = SLEPT_MIN;
    private int heldUp;
    private boolean on;

    /** Whether the next read should look. */
    boolean isOn() {
        return on;
    }

    /** The read took so long. */
    void took(long read_ns) {
        reads++;
        if (on) {
            noticeDelay(read_ns);
        }
        long counted_ns = Math.min(read_ns, READ_NS_MAX);
        if (reads <= SLEEPING) {
            sleeping_ns += reads > SLEEPING / 2 ? counted_ns : 0;
            on = reads == SLEEPING;
        } else if (reads <= TRIAL) {
            looking_ns += reads > SLEEPING + LOOKING / 2 ? counted_ns : 0;
            if (reads == TRIAL) {
                decide(mean(looking_ns, LOOKING) < mean(sleeping_ns, SLEEPING) * CLEARLY);
            }
        } else if (reads >= TRIAL + kept) {
            tryAgain();
        }
    }

    private void decide(boolean looks) {
        on = looks;
        if (looks) {
            kept = KEPT;
        } else {
            kept = slept;
            slept = Math.min(2 * slept, KEPT);
        }
    }

    private void tryAgain() {
        if (on) {
            slept = SLEPT_MIN;
        }
        reads = 0;
        heldUp = 0;
        sleeping_ns = 0;
        looking_ns = 0;
        on = false;
    }

    private void noticeDelay(long read_ns) {
        heldUp = Math.max(0, heldUp + (read_ns > READ_NS_MAX ? CALM : -1));
        if (heldUp > (HELD_UP_MAX - 1) * CALM) {
            reads = TRIAL + 1;
            decide(false);
        }
    }

    private static double mean(long sum_ns, int tried) {
        return sum_ns * 2.0 / tried;
    }
}
