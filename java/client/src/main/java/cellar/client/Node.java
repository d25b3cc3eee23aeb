package cellar.client;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * A server. Immutable.
 *
 * @param host name or address, or {@code unix:/path} for a UNIX socket
 * @param port of the server; 0 for a UNIX socket
 * @param weight its share of the keys in a sharded cluster, from 1
 * @param name hashed for the ring instead of the address, so that keys stay on the node when its
 *     address changes; empty for the address itself
 */
public record Node(String host, int port, int weight, String name) {
    /** The default port of memcached. */
    public static final int PORT = 11211;

    private static final String UNIX = "unix:";

    /** Checks the parts. */
    public Node {
        boolean reachable =
                host.startsWith(UNIX)
                        ? host.startsWith("/", UNIX.length()) && port == 0
                        : !host.isEmpty() && port > 0 && port <= 65535;
        if (!reachable || weight < 1) {
            throw new IllegalArgumentException("not a node: " + host + ":" + port + ":" + weight);
        }
    }

    /** Returns a node of weight 1 without a name. */
    public static Node of(String host, int port) {
        return new Node(host, port, 1, "");
    }

    /** Returns a UNIX socket of weight 1 without a name; the path must be absolute. */
    public static Node unix(Path file) {
        return new Node(UNIX + file, 0, 1, "");
    }

    /**
     * Parses {@code host}, {@code host:port}, {@code host:port:weight}, {@code unix:/path} or
     * {@code unix:/path:weight}, each optionally followed by {@code " name"}. An IPv6 address must
     * be in brackets.
     *
     * @throws IllegalArgumentException if the text has none of these forms
     */
    public static Node parse(String text) {
        String[] words = text.strip().split("\\s+", 2);
        String name = words.length > 1 ? words[1] : "";
        String address = words[0];
        if (address.startsWith(UNIX)) {
            return parseFile(address, name);
        }
        int bracket = address.indexOf(']');
        String host = bracket < 0 ? address.split(":", 2)[0] : address.substring(1, bracket);
        String rest = address.substring(bracket < 0 ? host.length() : bracket + 1);
        String[] numbers = rest.isEmpty() ? new String[] {""} : rest.split(":", -1);
        try {
            int port = numbers.length > 1 ? Integer.parseInt(numbers[1]) : PORT;
            int weight = numbers.length > 2 ? Integer.parseInt(numbers[2]) : 1;
            return new Node(host, port, weight, name);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("not a node: " + text, e);
        }
    }

    private static Node parseFile(String address, String name) {
        int colon = address.lastIndexOf(':');
        String digits = address.substring(colon + 1);
        boolean weighed = colon >= UNIX.length() && digits.matches("[0-9]{1,9}");
        String file = weighed ? address.substring(0, colon) : address;
        return new Node(file, 0, weighed ? Integer.parseInt(digits) : 1, name);
    }

    /** Returns the path of the UNIX socket; null for a node with a host and port. */
    public @Nullable Path socketFile() {
        return host.startsWith(UNIX) ? Path.of(host.substring(UNIX.length())) : null;
    }

    /** Returns this node with another weight. */
    public Node weight(int weight) {
        return new Node(host, port, weight, name);
    }

    /** Returns this node with another name. */
    public Node name(String name) {
        return new Node(host, port, weight, name);
    }

    /** Returns {@code host:port} or {@code unix:/path}. */
    public String address() {
        return port == 0 ? host : host + ":" + port;
    }

    @Override
    public String toString() {
        return name.isEmpty() ? address() : name + "=" + address();
    }
}
