package cellar.bench;

import java.io.IOException;
import java.util.List;
import java.util.function.Consumer;

/**
 * A client to measure, reduced to the measured operations.
 *
 * @param get reads and waits; null is a miss
 * @param set stores and waits for the answer
 * @param getAsync reads; completes with the decoded value; null if the client has no such method
 * @param end closes the client
 */
public record Peer(Get get, Set set, GetAsync getAsync, Closing end) implements AutoCloseable {
    static final int TTL_S = 3600;

    /** The names of all clients. */
    static final List<String> NAMES =
            List.of(
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

    /** {@link Peer#get}. */
    public interface Get {
        Object of(String key) throws Exception;
    }

    /** {@link Peer#set}. */
    public interface Set {
        void to(String key, Object value) throws Exception;
    }

    /** {@link Peer#getAsync}. */
    public interface GetAsync {
        void of(String key, Consumer<Object> done) throws Exception;
    }

    /** {@link Peer#end}. */
    public interface Closing {
        void run() throws IOException;
    }

    /** Creates a client without asynchronous requests. */
    Peer(Get get, Set set, Closing end) {
        this(get, set, null, end);
    }

    @Override
    public void close() throws IOException {
        end.run();
    }

    /** Whether the client {@code name} has asynchronous requests. */
    static boolean isAsync(String name) {
        return !name.startsWith("xmemcached") && !name.equals("whalin");
    }

    /**
     * Whether the client {@code name} works with {@code server}; lettuce needs the Redis protocol.
     */
    static boolean fits(String name, String server) {
        return server.equals("cellar") || !name.equals("lettuce");
    }

    /**
     * Connects the client {@code name} to servers at {@code ports}, for values of kind {@code
     * value}.
     */
    static Peer open(String name, List<Integer> ports, String value) throws Exception {
        boolean binary = name.endsWith("-binary");
        return switch (name.replace("-binary", "")) {
            case "cellar" -> Peers.cellar(ports, Peers.codec(value), builder -> {});
            case "spymemcached" -> Spy.open(ports, binary);
            case "elasticache" -> Spy.elasticache(ports, binary);
            case "xmemcached" -> Peers.xmemcached(ports, binary);
            case "folsom" -> Peers.folsom(ports, binary, value);
            case "whalin" -> Whalin.open("com.whalin", ports, false);
            case "lettuce" -> Peers.lettuce(ports.get(0), value);
            default -> throw new IllegalArgumentException("no client " + name);
        };
    }
}
