package cellar.client.internal.local;

import cellar.client.CacheException;
import cellar.client.LocalCacheOptions;
import cellar.client.internal.Core;
import cellar.client.internal.net.Endpoint;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Tracking with a separate connection to each node, opened when the client is built, and to a new
 * node with the first read from it.
 */
public final class RespTracking implements Tracking {
    private final Core core;
    private final LocalCacheOptions options;
    private final Map<Endpoint, TrackingConnection> connections = new ConcurrentHashMap<>();
    private @Nullable LocalCache cache;

    private RespTracking(Core core, LocalCacheOptions options) {
        this.core = core;
        this.options = options;
    }

    /** Creates the local cache of a client. */
    public static LocalCache cache(Core core, LocalCacheOptions options) {
        if (options.trackingPort() == 0) {
            return new LocalCache(core, options.bytesMax(), options.localTtl(), null);
        }
        RespTracking tracking = new RespTracking(core, options);
        LocalCache cache = new LocalCache(core, options.bytesMax(), options.localTtl(), tracking);
        tracking.cache = cache;
        core.onClose(tracking::close);
        core.cluster().endpoints().forEach(tracking::connection);
        return cache;
    }

    /** The connection to a node that has left the cluster closes itself. */
    private TrackingConnection connection(Endpoint endpoint) {
        LocalCache told = cache;
        if (told == null) {
            throw new IllegalStateException("the cache is set before anything is tracked");
        }
        return connections.computeIfAbsent(
                endpoint,
                node ->
                        new TrackingConnection(
                                node, port(node), options.trackingPassword(), told, core));
    }

    private int port(Endpoint node) {
        return core.cluster().trackingPort(node, options.trackingPort(node.node()));
    }

    @Override
    public CompletionStage<@Nullable Ticket> track(byte[] key) {
        try {
            long stay = core.cluster().stay(key);
            return connection(core.cluster().home(key)).track(key, stay);
        } catch (CacheException e) {
            return CompletableFuture.completedStage(null);
        }
    }

    @Override
    public void close() {
        connections.values().forEach(TrackingConnection::close);
    }
}
