package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cellar.client.testing.DnsServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Discovery of nodes: SRV records and a configuration endpoint. */
class DiscoveryTest {
    private static final Duration TTL = Duration.ofMinutes(1);

    @Test
    void servicesComeFromTheDomainNameSystemWithTheirWeights() throws Exception {
        try (DnsServer dns =
                new DnsServer(
                        "_memcached._tcp.test",
                        List.of(
                                new DnsServer.Service(10, 11212, "b.test"),
                                new DnsServer.Service(5, 11211, "a.test")))) {
            String server = "dns://127.0.0.1:" + dns.port();
            Discovery discovery =
                    new Periodic(() -> DnsNodes.service("_memcached._tcp.test", server), TTL);
            assertEquals(
                    List.of(
                            Node.of("a.test", 11211).weight(5),
                            Node.of("b.test", 11212).weight(10)),
                    discovery.nodes());
        }
    }

    @Test
    void nodesComeFromAConfigurationEndpoint() throws Exception {
        String nodes = "12\na.test|10.0.0.1|11211 b.test||11212 |10.0.0.3|11213\n";
        assertEquals(
                List.of(
                        Node.of("a.test", 11211),
                        Node.of("b.test", 11212),
                        Node.of("10.0.0.3", 11213)),
                configuration(
                        "CONFIG cluster 0 " + nodes.length() + "\r\n" + nodes + "\r\nEND\r\n"));
        assertThrows(CacheException.Refused.class, () -> configuration("ERROR\r\n"));
        assertThrows(
                CacheException.Protocol.class,
                () -> configuration("CONFIG cluster 0 3\r\n1\nwhat\n\r\nEND\r\n"));
        assertThrows(IOException.class, () -> configuration("CONFIG clus"));
    }

    private static List<Node> configuration(String answer) throws Exception {
        try (ServerSocket door = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread server =
                    new Thread(
                            () -> {
                                try (Socket socket = door.accept()) {
                                    socket.getInputStream().readNBytes(20);
                                    socket.getOutputStream()
                                            .write(answer.getBytes(StandardCharsets.US_ASCII));
                                } catch (IOException e) {
                                    throw new UncheckedIOException(e);
                                }
                            });
            server.start();
            Node endpoint = Node.of("127.0.0.1", door.getLocalPort());
            return Discovery.configuration(endpoint, TTL).nodes();
        }
    }
}
