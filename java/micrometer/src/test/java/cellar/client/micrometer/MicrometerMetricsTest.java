package cellar.client.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.CacheClient;
import cellar.client.Codecs;
import cellar.client.LocalCacheOptions;
import cellar.client.testing.Await;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Meters of a client in use. */
class MicrometerMetricsTest {
    @Test
    void metersTellHitsMissesAndTimes() throws Exception {
        SimpleMeterRegistry registry = new SimpleMeterRegistry();
        try (Server server = Server.start(Server.Kind.MEMCACHED);
                CacheClient<String> client =
                        Patient.builder()
                                .nodes(List.of(server.node()))
                                .localCache(LocalCacheOptions.confirmed(1000))
                                .metrics(new MicrometerMetrics(registry, Tags.of("cache", "a")))
                                .build(Codecs.string())) {
            Duration minute = Duration.ofMinutes(1);
            client.blocking().set("k", "v", minute);
            client.blocking().get("k");
            client.blocking().get("none");
            client.blocking().get("k", minute);
            client.blocking().get("k", minute);
            String node = server.node().toString();
            // A caller may get its answer before the answer is counted.
            Await.until(
                    "all requests",
                    () ->
                            count(registry, node, "get", "hit") == 2
                                    && count(registry, node, "get", "miss") == 1
                                    && count(registry, node, "set", "hit") == 1);
            assertTrue(
                    registry.get("cellar.client.requests").timer().totalTime(TimeUnit.NANOSECONDS)
                            > 0);
            assertEquals(
                    1, registry.get("cellar.client.local").tag("result", "hit").counter().count());
            Await.until(
                    "nothing in flight",
                    () -> registry.get("cellar.client.in.flight").gauge().value() == 0);
            assertTrue(
                    registry.get("cellar.client.connections").tag("cache", "a").counter().count()
                            > 0);
        }
    }

    private static long count(
            SimpleMeterRegistry registry, String node, String operation, String outcome) {
        Timer timer =
                registry.find("cellar.client.requests")
                        .tags("node", node, "operation", operation, "outcome", outcome)
                        .timer();
        return timer == null ? 0 : timer.count();
    }
}
