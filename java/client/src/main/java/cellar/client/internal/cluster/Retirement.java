package cellar.client.internal.cluster;

import cellar.client.internal.net.Endpoint;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** Nodes that get no more requests, but still have unanswered ones. */
final class Retirement {
    private final Set<Endpoint> retired = ConcurrentHashMap.newKeySet();

    /** Closes {@code endpoint} after the request time-out, when it has no unanswered requests. */
    void add(Endpoint endpoint) {
        retired.add(endpoint);
        long grace_ms = endpoint.settings().timeout().toMillis();
        endpoint.loop()
                .schedule(
                        () -> {
                            endpoint.close();
                            retired.remove(endpoint);
                        },
                        grace_ms,
                        TimeUnit.MILLISECONDS);
    }

    /** Closes all at once. */
    void close() {
        retired.forEach(Endpoint::close);
    }
}
