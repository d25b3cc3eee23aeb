package cellar.client;

import java.time.Duration;
import java.util.List;

/**
 * Finds the nodes of a cache.
 *
 * <p>The client calls it repeatedly on a separate thread. If it fails or returns no nodes, the
 * known nodes stay in use.
 */
public interface Discovery {
    /**
     * Returns the current nodes.
     *
     * @throws Exception for any reason; the client logs it and tries again later
     */
    List<Node> nodes() throws Exception;

    /** Returns the time between two calls of {@link #nodes}; zero for one call only. */
    Duration period();

    /** Returns a fixed list of nodes. */
    static Discovery fixed(List<Node> nodes) {
        List<Node> copy = List.copyOf(nodes);
        return new Periodic(() -> copy, Duration.ZERO);
    }

    /** Finds all addresses of a DNS name, each with {@code port}. */
    static Discovery dnsAddresses(String name, int port, Duration period) {
        return new Periodic(() -> DnsNodes.addresses(name, port), period);
    }

    /**
     * Finds the hosts and ports of an SRV record, for example {@code _memcached._tcp.example.com},
     * with the weights of the record.
     */
    static Discovery dnsService(String name, Duration period) {
        return new Periodic(() -> DnsNodes.service(name, "dns:"), period);
    }

    /** Reads the answer of {@code config get cluster} of an ElastiCache configuration endpoint. */
    static Discovery configuration(Node endpoint, Duration period) {
        return new Periodic(() -> ConfiguredNodes.ask(endpoint), period);
    }
}
