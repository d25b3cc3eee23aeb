package cellar.client.internal.net;

/**
 * Whether a reader should look for bytes a while before it sleeps.
 *
 * <p>Reads are tried both ways and timed; the way that was clearly faster, or sleeping, is kept for
 * many reads, and both are tried again. Looking costs processor time, so where others want that it
 * is slower and not chosen, and given up before its time if several reads close together are held
 * up. The first half of each trial does not count: a reader that sleeps and the server that wakes
 * it may move to one processor after a while, which is another speed. Belongs to one reader at a
 * time.
 */
final class Looking {
    static final int SLEEPING = 1024;
    static final int LOOKING = 256;
    static final int KEPT = 1 << 15;
    private static final double CLEARLY = 0.85;

    /** A longer read was held up by something else, and counts no more than this. */
    static final long READ_NS_MAX = 500_000;

    /** So many held up, with fewer than {@link #CALM} others between them, are several. */
    static final int HELD_UP_MAX = 4;

    private static final int CALM = 16;

    private long sleeping_ns;
    private long looking_ns;
    private int reads;
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
        } else if (reads <= SLEEPING + LOOKING) {
            looking_ns += reads > SLEEPING + LOOKING / 2 ? counted_ns : 0;
            if (reads == SLEEPING + LOOKING) {
                on = mean(looking_ns, LOOKING) < mean(sleeping_ns, SLEEPING) * CLEARLY;
            }
        } else if (reads >= KEPT) {
            reads = 0;
            heldUp = 0;
            sleeping_ns = 0;
            looking_ns = 0;
            on = false;
        }
    }

    private void noticeDelay(long read_ns) {
        heldUp = Math.max(0, heldUp + (read_ns > READ_NS_MAX ? CALM : -1));
        if (heldUp > (HELD_UP_MAX - 1) * CALM) {
            on = false;
            reads = SLEEPING + LOOKING + 1;
        }
    }

    private static double mean(long sum_ns, int tried) {
        return sum_ns * 2.0 / tried;
    }
}
