package cellar.client.replication;

import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.internal.net.Endpoint;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Lets one client of several in this process stand still, as a process does that is stopped.
 *
 * <p>Its event loops wait, and every other thread where it next looks at the clock: some before,
 * some when they have read it, so that they act on a time that is long over.
 */
final class Standstill {
    /** More than a client has loops, which are given tasks in turn. */
    private static final int LOOPS_MAX = 16;

    private static final CountDownLatch OPEN = new CountDownLatch(0);

    private volatile CountDownLatch gate = OPEN;

    /** The time, perhaps of long ago. */
    long now_ns() {
        boolean stale = ThreadLocalRandom.current().nextBoolean();
        long begun_ns = System.nanoTime();
        pass();
        return stale ? begun_ns : System.nanoTime();
    }

    private void pass() {
        try {
            gate.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** All threads of the client stop. */
    void begin(ReplicatedCluster cluster) {
        CountDownLatch closed = new CountDownLatch(1);
        gate = closed;
        Endpoint any = cluster.endpoints().get(0);
        for (int i = 0; i < LOOPS_MAX; i++) {
            any.loop().execute(this::pass);
        }
    }

    /** They go on. */
    void end() {
        CountDownLatch closed = gate;
        gate = OPEN;
        closed.countDown();
    }
}
