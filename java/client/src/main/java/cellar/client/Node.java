package cellar.client;

/**
 * A server to be used. Immutable.
 *
 * @param host name or address
 * @param port of memcached's protocol
 * @param weight its share of the keys in a sharded cluster, from 1
 * @param name what the ring hashes instead of the address, so that keys stay when an address
 *     changes; empty for the address itself
 */
public record Node(String host, int port, int weight, String name) {
    /** The port that memcached is known by. */
    public static final int PORT = 11211;

    /** Checks the parts. */
    public Node {
        if (host.isEmpty() || port < 1 || port > 65535 || weight < 1) {
            throw new IllegalArgumentException("not a node: " + host + ":" + port + ":" + weight);
        }
    }

    /** A node of weight 1 without a name. */
    public static Node of(String host, int port) {
        return new Node(host, port, 1, "");
    }

    /**
     * Reads {@code host}, {@code host:port}, {@code host:port:weight}, each with {@code " name"}
     * behind it; an IPv6 address stands in brackets.
     *
     * @throws IllegalArgumentException if the text is none of these
     */
    public static Node parse(String text) {
        String[] words = text.strip().split("\\s+", 2);
        String name = words.length > 1 ? words[1] : "";
        String address = words[0];
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

    /** The same node with another weight. */
    public Node weight(int weight) {
        return new Node(host, port, weight, name);
    }

    /** The same node with another name. */
    public Node name(String name) {
        return new Node(host, port, weight, name);
    }

    /** {@code host:port}. */
    public String address() {
        return host + ":" + port;
    }

    @Override
    public String toString() {
        return name.isEmpty() ? address() : name + "=" + address();
    }
}
