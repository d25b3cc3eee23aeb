package cellar.client;

import java.time.Duration;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Options of the local cache. Immutable.
 *
 * @param bytesMax limit in bytes, counting keys, encoded values and 96 bytes for each item
 * @param localTtl maximum age of a copy for calls without a {@code localTtl}; null if such calls do
 *     not use the local cache
 * @param trackingPort port where servers send invalidations over the Redis protocol; 0 for none
 * @param trackingPorts other tracking ports of some nodes, by node name or {@code host:port}
 * @param trackingPassword password for the Redis protocol at these ports; null for none
 */
public record LocalCacheOptions(
        long bytesMax,
        @Nullable Duration localTtl,
        int trackingPort,
        Map<String, Integer> trackingPorts,
        @Nullable String trackingPassword) {
    /** Checks and copies the arguments. */
    public LocalCacheOptions {
        if (bytesMax < 1 || trackingPort < 0 || trackingPort > 65535) {
            throw new IllegalArgumentException("bytesMax must be positive, trackingPort a port");
        }
        if (localTtl != null && localTtl.isNegative()) {
            throw new IllegalArgumentException("localTtl must not be negative");
        }
        trackingPorts = Map.copyOf(trackingPorts);
    }

    /**
     * Copies are confirmed with the server when they are older than the caller allows. Each
     * connection must lead to one server process for its lifetime. So do not use this with a proxy
     * that speaks the memcached protocol itself.
     */
    public static LocalCacheOptions confirmed(long bytesMax) {
        return new LocalCacheOptions(bytesMax, null, 0, Map.of(), null);
    }

    /** Copies are dropped as soon as Cellar or Redis reports that the item has changed. */
    public static LocalCacheOptions tracked(long bytesMax, int trackingPort) {
        return new LocalCacheOptions(bytesMax, null, trackingPort, Map.of(), null);
    }

    /**
     * Returns these options; calls without a {@code localTtl} then use the local cache too: {@link
     * CacheClient#get(String)}, {@link CacheClient#getMany}, {@link CacheClient#getOrLoad}.
     */
    public LocalCacheOptions localTtl(Duration localTtl) {
        return new LocalCacheOptions(
                bytesMax, localTtl, trackingPort, trackingPorts, trackingPassword);
    }

    /** Returns these options with a password for the Redis protocol. */
    public LocalCacheOptions password(String password) {
        return new LocalCacheOptions(bytesMax, localTtl, trackingPort, trackingPorts, password);
    }

    /** Returns these options with other ports for some nodes, by name or {@code host:port}. */
    public LocalCacheOptions ports(Map<String, Integer> ports) {
        return new LocalCacheOptions(bytesMax, localTtl, trackingPort, ports, trackingPassword);
    }

    /** Returns the port where {@code node} sends invalidations. */
    public int trackingPort(Node node) {
        Integer named = trackingPorts.get(node.name());
        return named != null ? named : trackingPorts.getOrDefault(node.address(), trackingPort);
    }

    @Override
    public String toString() {
        return "LocalCacheOptions[bytesMax="
                + bytesMax
                + ", localTtl="
                + localTtl
                + ", trackingPort="
                + trackingPort
                + "]";
    }
}
