package cellar.client.replication;

import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.internal.net.Endpoint;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Pauses one of several clients in this process, as if its process were stopped.
 *
 * <p>Its event loops wait. Every other thread waits where it next reads the clock, before or after
 * reading, so that some act on an outdated time.
 */
final class Standstill {
    /** More than the loops of a client, which get tasks in turn. */
    private static final int LOOPS_MAX = 16;

    private static final CountDownLatch OPEN = new CountDownLatch(0);

    private volatile CountDownLatch gate = OPEN;

    /** Returns the time, which may be outdated. */
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

    /** Stops all threads of the client. */
    void begin(ReplicatedCluster cluster) {
        CountDownLatch closed = new CountDownLatch(1);
        gate = closed;
        Endpoint any = cluster.endpoints().get(0);
        for (int i = 0; i < LOOPS_MAX; i++) {
            any.loop().execute(this::pass);
        }
    }

    /** Resumes them. */
    void end() {
        CountDownLatch closed = gate;
        gate = OPEN;
        closed.countDown();
    }
}
