package cellar.client;

import java.time.Duration;
import java.util.List;

/**
 * Where the nodes come from.
 *
 * <p>Asked again and again in a thread of its own. A failure, or an empty answer, keeps the nodes
 * known.
 */
public interface Discovery {
    /**
     * The nodes of this moment.
     *
     * @throws Exception for any reason; it is logged, and asked again later
     */
    List<Node> nodes() throws Exception;

    /** How long to wait before asking again; zero for never. */
    Duration period();

    /** Always these nodes. */
    static Discovery fixed(List<Node> nodes) {
        List<Node> copy = List.copyOf(nodes);
        return new Periodic(() -> copy, Duration.ZERO);
    }

    /** All addresses of a name, each with {@code port}. */
    static Discovery dnsAddresses(String name, int port, Duration period) {
        return new Periodic(() -> DnsNodes.addresses(name, port), period);
    }

    /**
     * The hosts and ports of an SRV record, for example {@code _memcached._tcp.example.com}, with
     * the record's weights.
     */
    static Discovery dnsService(String name, Duration period) {
        return new Periodic(() -> DnsNodes.service(name, "dns:"), period);
    }

    /** The answer of {@code config get cluster}, as ElastiCache's configuration endpoints give. */
    static Discovery configuration(Node endpoint, Duration period) {
        return new Periodic(() -> ConfiguredNodes.ask(endpoint), period);
    }
}
