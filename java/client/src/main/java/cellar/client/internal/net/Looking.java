package cellar.client.internal.net;

/**
 * Whether a reader should look for bytes a while before it sleeps.
 *
 * <p>Reads are tried both ways and timed; the way that was clearly faster, or sleeping, is kept for
 * many reads, and both are tried again. Looking costs a processor, so where those are busy it is
 * slower and not chosen. The first half of each trial does not count: a reader that sleeps and the
 * server that wakes it move to one processor after a while, which looking prevents, and that is
 * faster than either alone. Belongs to one reader at a time.
 */
final class Looking {
    static final int SLEEPING = 2048;
    static final int LOOKING = 256;
    static final int KEPT = 1 << 15;
    private static final double CLEARLY = 0.85;
    private static final boolean POSSIBLE = Runtime.getRuntime().availableProcessors() > 1;

    private long sleeping_ns;
    private long looking_ns;
    private int reads;
    private boolean on;

    /** Whether the next read should look. */
    boolean isOn() {
        return on;
    }

    /** The read took so long. */
    void took(long read_ns) {
        reads++;
        if (reads <= SLEEPING) {
            sleeping_ns += reads > SLEEPING / 2 ? read_ns : 0;
            on = reads == SLEEPING && POSSIBLE;
        } else if (reads <= SLEEPING + LOOKING) {
            looking_ns += reads > SLEEPING + LOOKING / 2 ? read_ns : 0;
            if (reads == SLEEPING + LOOKING) {
                on = POSSIBLE && mean(looking_ns, LOOKING) < mean(sleeping_ns, SLEEPING) * CLEARLY;
            }
        } else if (reads == KEPT) {
            reads = 0;
            sleeping_ns = 0;
            looking_ns = 0;
            on = false;
        }
    }

    private static double mean(long sum_ns, int tried) {
        return sum_ns * 2.0 / tried;
    }
}
