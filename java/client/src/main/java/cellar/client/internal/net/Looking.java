package cellar.client.internal.net;

/**
 * Decides whether a reader spins before it sleeps.
 *
 * <p>Reads are tried both ways and timed. Spinning is used for many reads if it was clearly faster,
 * otherwise sleeping; then both are tried again. Spinning costs processor time. If other threads
 * need the processor, spinning is slower and is not chosen. It also ends early if several reads
 * close together are delayed. That may be temporary: the JIT compiler may have just compiled this
 * code. So after spinning has lost, it is tried again soon, then less and less often. The first
 * half of each trial does not count, because the kernel may move a sleeping reader and the server
 * that wakes it to the same processor, which changes the speed. Used by one reader at a time.
 */
final class Looking {
    static final int SLEEPING = 1024;
    static final int LOOKING = 256;
    static final int TRIAL = SLEEPING + LOOKING;

    /** Number of reads for which spinning is kept, and limit for sleeping. */
    static final int KEPT = 1 << 15;

    /** Number of reads for which sleeping is kept after spinning has lost for the first time. */
    static final int SLEPT_MIN = 1 << 10;

    private static final double CLEARLY = 0.85;

    /** A longer read was delayed by something else, and counts as this long. */
    static final long READ_NS_MAX = 500_000;

    /** This many delayed reads, with fewer than {@link #CALM} others between them, end spinning. */
    static final int HELD_UP_MAX = 4;

    private static final int CALM = 16;

    private long sleeping_ns;
    private long looking_ns;
    private int reads;
    private int kept;
    private int slept = SLEPT_MIN;
    private int heldUp;
    private boolean on;

    /** Whether the next read should spin. */
    boolean isOn() {
        return on;
    }

    /** Records how long a read took. */
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
