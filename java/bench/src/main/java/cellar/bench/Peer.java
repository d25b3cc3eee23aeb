package cellar.bench;

import java.util.Collection;
import java.util.List;
import java.util.function.Consumer;

/** A client under measurement, reduced to what is measured. */
public interface Peer extends AutoCloseable {
    /** Reads and waits; null is a miss. */
    Object get(String key) throws Exception;

    /** Stores and waits for the server's word. */
    void set(String key, Object value) throws Exception;

    /** Reads; {@code done} is given the value, decoded, when it is there; null if there is none. */
    default void getAsync(String key, Consumer<Object> done) throws Exception {
        throw new UnsupportedOperationException("no asynchronous requests");
    }

    @Override
    void close();

    /** Names of all clients. */
    static Collection<String> names() {
        return List.of(
                "cellar",
                "spymemcached",
                "spymemcached-binary",
                "elasticache",
                "elasticache-binary",
                "xmemcached",
                "xmemcached-binary",
                "folsom",
                "folsom-binary",
                "whalin",
                "lettuce");
    }

    /** Whether {@code name} has asynchronous requests. */
    static boolean isAsync(String name) {
        return !name.startsWith("xmemcached") && !name.equals("whalin");
    }

    /** Whether {@code name} can talk to {@code server}; Cellar has no binary protocol. */
    static boolean fits(String name, String server) {
        if (name.equals("lettuce")) {
            return server.equals("cellar") || server.equals("redis");
        }
        return !(server.equals("cellar") && name.endsWith("-binary")) && !server.equals("redis");
    }

    /** Connects {@code name} to servers at {@code ports} for values of kind {@code value}. */
    static Peer open(String name, List<Integer> ports, String value) throws Exception {
        boolean binary = name.endsWith("-binary");
        return switch (name.replace("-binary", "")) {
            case "cellar" -> new CellarPeer(ports, value);
            case "spymemcached" -> new SpyPeer(ports, binary);
            case "elasticache" -> Apart.elasticache(ports, binary);
            case "xmemcached" -> new XmemcachedPeer(ports, binary);
            case "folsom" -> new FolsomPeer(ports, binary, value);
            case "whalin" -> new WhalinPeer(ports);
            case "lettuce" -> new LettucePeer(ports.get(0));
            default -> throw new IllegalArgumentException("no client " + name);
        };
    }
}
