package cellar.client.internal.cluster;

/** Time as the rules see it: it passes, and wakes. No clock on a wall has a say. */
interface Ticks {
    /** Milliseconds since some moment. */
    long now_ms();

    /** Runs {@code task} after {@code delay_ms}, or earlier if the client is closed meanwhile. */
    void later(long delay_ms, Runnable task);
}
