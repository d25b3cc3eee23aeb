package cellar.client.internal.net;

import cellar.client.CacheException;
import cellar.client.internal.wire.Operation;
import io.netty.util.concurrent.ScheduledFuture;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** The connections of a node for blocking calls: chooses one, and enforces time-outs on all. */
final class Lanes {
    private static final long WATCH_MS = 20;

    private final Endpoint endpoint;
    private final List<Lane> lanes;
    private final AtomicInteger inFlight = new AtomicInteger();
    private final AtomicInteger turn = new AtomicInteger();
    private final LongAdder heard = new LongAdder();
    private final AtomicBoolean watched = new AtomicBoolean();
    private volatile @Nullable ScheduledFuture<?> watch;

    Lanes(Endpoint endpoint, int count) {
        this.endpoint = endpoint;
        this.lanes = IntStream.range(0, count).mapToObj(index -> new Lane(endpoint)).toList();
    }

    /** Sends and waits. A read is sent once more if its connection broke. */
    void call(Operation<?> operation, long deadline_ns) {
        if (inFlight.incrementAndGet() > endpoint.settings().inFlightMax()) {
            inFlight.decrementAndGet();
            endpoint.settings().metrics().overloaded(endpoint.name(), "callers");
            operation.completeExceptionally(
                    new CacheException.Overloaded(
                            endpoint.settings().inFlightMax() + " callers wait"));
            return;
        }
        try {
            if (endpoint.isClosed()) {
                operation.completeExceptionally(new CacheException.Closed());
            } else if (endpoint.isDown()) {
                operation.completeExceptionally(endpoint.down());
            } else {
                startWatching();
                choose().call(new Waiter(operation, deadline_ns));
            }
        } finally {
            inFlight.decrementAndGet();
        }
    }

    int inFlight() {
        return inFlight.get();
    }

    /** The node has sent bytes. */
    void heard() {
        heard.increment();
    }

    /** Returns how often the node has sent bytes. */
    long timesHeard() {
        return heard.sum();
    }

    /** Returns an idle lane if there is one, otherwise the next in turn. */
    private Lane choose() {
        if (lanes.size() == 1) {
            return lanes.get(0);
        }
        for (Lane lane : lanes) {
            if (!lane.isLed()) {
                return lane;
            }
        }
        return lanes.get((turn.getAndIncrement() & 0x7fffffff) % lanes.size());
    }

    private void startWatching() {
        if (!watched.get() && watched.compareAndSet(false, true)) {
            watch =
                    endpoint.loop()
                            .scheduleAtFixedRate(
                                    this::watch, WATCH_MS, WATCH_MS, TimeUnit.MILLISECONDS);
        }
    }

    private void watch() {
        long now_ns = System.nanoTime();
        for (Lane lane : lanes) {
            lane.watch(now_ns);
        }
    }

    void close() {
        ScheduledFuture<?> running = watch;
        if (running != null) {
            running.cancel(false);
        }
        lanes.forEach(Lane::close);
    }
}
