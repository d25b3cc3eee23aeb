package cellar.client.testing;

import java.util.concurrent.Callable;

/**
 * Waits for events. The limit is long, because a busy machine may take many seconds for something
 * that usually takes milliseconds. Only a failing test waits that long.
 */
public final class Await {
    private static final long PATIENCE_NS = 60_000_000_000L;

    private Await() {}

    /** Returns when {@code condition} is true; fails after a minute. */
    public static void until(String what, Callable<Boolean> condition) throws Exception {
        long end_ns = System.nanoTime() + PATIENCE_NS;
        while (!condition.call()) {
            if (System.nanoTime() - end_ns > 0) {
                throw new AssertionError("never happened: " + what);
            }
            Thread.sleep(2);
        }
    }
}
