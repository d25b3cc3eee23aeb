package cellar.client.micrometer;

import cellar.client.CacheMetrics;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntSupplier;
import org.jspecify.annotations.NullMarked;

/**
 * What a client does, as meters.
 *
 * <table>
 * <caption>Meters; each has the tags given to the constructor too</caption>
 * <tr><td>cellar.client.requests</td><td>timer by node, operation, outcome</td></tr>
 * <tr><td>cellar.client.local</td><td>reads of the local cache by result</td></tr>
 * <tr><td>cellar.client.invalidations</td><td>local copies that a server had dropped</td></tr>
 * <tr><td>cellar.client.connections</td><td>opened, by node, again</td></tr>
 * <tr><td>cellar.client.disconnections</td><td>lost or failed, by node</td></tr>
 * <tr><td>cellar.client.overloads</td><td>refused requests by node, queue</td></tr>
 * <tr><td>cellar.client.replication.queue</td><td>gauge of changes that wait, by node</td></tr>
 * <tr><td>cellar.client.in.flight</td><td>gauge of unanswered requests, by node</td></tr>
 * </table>
 *
 * <p>Safe for use by many threads.
 */
@NullMarked
public final class MicrometerMetrics implements CacheMetrics {
    private static final String PREFIX = "cellar.client.";

    private record Request(String node, String operation, Outcome outcome) {}

    private final MeterRegistry registry;
    private final Tags tags;
    private final Map<Request, Timer> timers = new ConcurrentHashMap<>();
    private final Map<String, AtomicInteger> replicating = new ConcurrentHashMap<>();
    private final Counter localHits;
    private final Counter localMisses;
    private final Counter invalidations;

    /** Registers meters with {@code registry}; {@code tags} distinguish clients. */
    public MicrometerMetrics(MeterRegistry registry, Tags tags) {
        this.registry = registry;
        this.tags = tags;
        localHits = registry.counter(PREFIX + "local", tags.and("result", "hit"));
        localMisses = registry.counter(PREFIX + "local", tags.and("result", "miss"));
        invalidations = registry.counter(PREFIX + "invalidations", tags);
    }

    @Override
    public void request(String node, String operation, Outcome outcome, long latency_ns) {
        timers.computeIfAbsent(new Request(node, operation, outcome), this::timer)
                .record(latency_ns, TimeUnit.NANOSECONDS);
    }

    private Timer timer(Request request) {
        return registry.timer(
                PREFIX + "requests",
                tags.and(
                        "node",
                        request.node(),
                        "operation",
                        request.operation(),
                        "outcome",
                        request.outcome().name().toLowerCase(Locale.ROOT)));
    }

    @Override
    public void local(boolean hit) {
        (hit ? localHits : localMisses).increment();
    }

    @Override
    public void invalidated() {
        invalidations.increment();
    }

    @Override
    public void connected(String node, boolean again) {
        registry.counter(
                        PREFIX + "connections",
                        tags.and("node", node, "again", Boolean.toString(again)))
                .increment();
    }

    @Override
    public void disconnected(String node) {
        registry.counter(PREFIX + "disconnections", tags.and("node", node)).increment();
    }

    @Override
    public void overloaded(String node, String queue) {
        registry.counter(PREFIX + "overloads", tags.and("node", node, "queue", queue)).increment();
    }

    @Override
    public void replicating(String node, int queued) {
        replicating.computeIfAbsent(node, this::replicationGauge).set(queued);
    }

    private AtomicInteger replicationGauge(String node) {
        AtomicInteger queued = new AtomicInteger();
        Gauge.builder(PREFIX + "replication.queue", queued, AtomicInteger::get)
                .tags(tags.and("node", node))
                .register(registry);
        return queued;
    }

    @Override
    public void gauge(String node, IntSupplier inFlight) {
        Gauge.builder(PREFIX + "in.flight", inFlight, IntSupplier::getAsInt)
                .tags(tags.and("node", node))
                .strongReference(true)
                .register(registry);
    }
}
