package cellar.client.testing;

import java.util.concurrent.Callable;

/**
 * Waits for events. The bound is long because a busy machine may take many seconds for what takes
 * milliseconds else, and only a test that fails waits for so long.
 */
public final class Await {
    private static final long PATIENCE_NS = 60_000_000_000L;

    private Await() {}

    /** Returns when {@code condition} holds; fails after a minute. */
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
