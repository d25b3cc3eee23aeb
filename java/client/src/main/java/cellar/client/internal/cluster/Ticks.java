package cellar.client.internal.cluster;

/** A monotonic clock with a timer; the rules never use wall-clock time. */
interface Ticks {
    /** Returns milliseconds since an arbitrary moment. */
    long now_ms();

    /** Runs {@code task} after {@code delay_ms}, or earlier if the client is closed meanwhile. */
    void later(long delay_ms, Runnable task);
}
