package cellar.client;

import java.time.Duration;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * How the local cache works. Immutable.
 *
 * @param bytesMax most bytes of keys, encoded values and 96 for each item
 * @param localTtl how old a copy may be where a call does not say; null for calls that say so only
 * @param trackingPort where servers tell of changes in Redis's protocol; 0 if they do not
 * @param trackingPorts exceptions by node name or {@code host:port}
 * @param trackingPassword what Redis's protocol asks for there; null for none
 */
public record LocalCacheOptions(
        long bytesMax,
        @Nullable Duration localTtl,
        int trackingPort,
        Map<String, Integer> trackingPorts,
        @Nullable String trackingPassword) {
    /** Checks and copies. */
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
     * Copies that are confirmed with the server when they are older than the caller allows. Each
     * connection must lead to one process as long as it lives, so not through a proxy that speaks
     * memcached's protocol itself.
     */
    public static LocalCacheOptions confirmed(long bytesMax) {
        return new LocalCacheOptions(bytesMax, null, 0, Map.of(), null);
    }

    /** Copies that go as soon as Cellar, or Redis, tells that the item has changed. */
    public static LocalCacheOptions tracked(long bytesMax, int trackingPort) {
        return new LocalCacheOptions(bytesMax, null, trackingPort, Map.of(), null);
    }

    /**
     * The same, and calls that do not say how old a copy may be go through the local cache too:
     * {@link CacheClient#get(String)}, {@link CacheClient#getMany}, {@link CacheClient#getOrLoad}.
     */
    public LocalCacheOptions localTtl(Duration localTtl) {
        return new LocalCacheOptions(
                bytesMax, localTtl, trackingPort, trackingPorts, trackingPassword);
    }

    /** The same with a password for Redis's protocol. */
    public LocalCacheOptions password(String password) {
        return new LocalCacheOptions(bytesMax, localTtl, trackingPort, trackingPorts, password);
    }

    /** The same with other ports for some nodes, by name or {@code host:port}. */
    public LocalCacheOptions ports(Map<String, Integer> ports) {
        return new LocalCacheOptions(bytesMax, localTtl, trackingPort, ports, trackingPassword);
    }

    /** Where {@code node} tells of changes. */
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
