package cellar.client.testing;

import java.util.concurrent.Callable;

/** Waits until something is so. */
public final class Await {
    private static final long PATIENCE_NS = 20_000_000_000L;

    private Await() {}

    /** Returns when {@code condition} holds; fails after twenty seconds. */
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
