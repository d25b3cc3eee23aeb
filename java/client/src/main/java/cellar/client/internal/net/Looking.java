package cellar.client.internal.net;

/**
 * Whether a reader should look for bytes a while before it sleeps.
 *
 * <p>Some reads are tried either way and timed; then the way that was clearly faster, or sleeping,
 * is kept for many reads, and both are tried again. Looking costs a processor, so where those are
 * busy it is slower and not chosen. Belongs to one reader at a time.
 */
final class Looking {
    private static final int TRIED = 64;
    private static final int KEPT = 1 << 13;
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
        if (reads <= TRIED) {
            sleeping_ns += read_ns;
            on = reads == TRIED && POSSIBLE;
        } else if (reads <= 2 * TRIED) {
            looking_ns += read_ns;
            if (reads == 2 * TRIED) {
                on = POSSIBLE && looking_ns < sleeping_ns * CLEARLY;
            }
        } else if (reads == KEPT) {
            reads = 0;
            sleeping_ns = 0;
            looking_ns = 0;
            on = false;
        }
    }
}
