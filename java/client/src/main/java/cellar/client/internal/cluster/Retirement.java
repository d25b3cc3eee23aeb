package cellar.client.internal.cluster;

import cellar.client.internal.net.Endpoint;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** Nodes that are not asked any more, whose last answers are still waited for. */
final class Retirement {
    private final Set<Endpoint> retired = ConcurrentHashMap.newKeySet();

    /** Closes {@code endpoint} once requests that are on their way were answered or given up. */
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
