package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Await;
import cellar.client.testing.ChangingNodes;
import cellar.client.testing.DnsServer;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Keys spread over several nodes, and where the nodes come from. */
class ShardedTest {
    private static final Duration TTL = Duration.ofMinutes(1);

    private final List<Server> servers = new ArrayList<>();

    @BeforeEach
    void open() throws Exception {
        for (int i = 0; i < 3; i++) {
            servers.add(Server.memcached(0));
        }
    }

    @AfterEach
    void shut() {
        servers.forEach(Server::close);
    }

    private CacheClientBuilder builder() {
        return Patient.builder()
                .nodes(servers.stream().map(Server::node).toList())
                .backoff(Duration.ofMillis(5), Duration.ofMillis(50));
    }

    private static Map<String, String> fill(CacheClient<String> client) {
        Map<String, String> stored = new HashMap<>();
        for (int i = 0; i < 300; i++) {
            stored.put("k" + i, "v" + i);
            client.blocking().set("k" + i, "v" + i, TTL);
        }
        return stored;
    }

    private static int items(Server server) throws IOException {
        String stats = server.ask("stats\r\n", "END");
        return Integer.parseInt(stats.split("STAT curr_items ")[1].split("\n")[0]);
    }

    @Test
    void everyNodeHasItsShareAndManyAreReadFromAll() throws Exception {
        try (CacheClient<String> client = builder().build(Codecs.string())) {
            Map<String, String> stored = fill(client);
            int all = 0;
            for (Server server : servers) {
                assertTrue(items(server) > 30);
                all += items(server);
            }
            assertEquals(300, all);
            assertEquals(stored, client.blocking().getMany(stored.keySet()));
            assertEquals(stored.keySet(), client.blocking().keys(Listing.EXACT));
        }
    }

    @Test
    void aDeadNodesKeysFailAndTheOthersGoOn() throws Exception {
        try (CacheClient<String> client = builder().build(Codecs.string())) {
            Map<String, String> stored = fill(client);
            servers.get(0).kill();
            int failed = 0;
            for (String key : stored.keySet()) {
                try {
                    assertEquals(stored.get(key), client.blocking().get(key));
                } catch (CacheException.Connection e) {
                    failed++;
                }
            }
            assertTrue(failed > 30 && failed < 200, "failed " + failed);
        }
    }

    @Test
    void withFailoverAnotherNodeStandsIn() throws Exception {
        try (CacheClient<String> client =
                builder()
                        .mode(CacheClientBuilder.Mode.SHARDED_WITH_FAILOVER)
                        .build(Codecs.string())) {
            fill(client);
            servers.get(0).kill();
            Await.until(
                    "no failures",
                    () -> {
                        try {
                            fill(client);
                            return true;
                        } catch (CacheException.Connection e) {
                            return false;
                        }
                    });
            assertEquals("v7", client.blocking().get("k7"));
        }
    }

    @Test
    void nodesComeAndGoWhileRequestsGoOn() throws Exception {
        AtomicReference<List<Node>> nodes =
                new AtomicReference<>(List.of(servers.get(0).node(), servers.get(1).node()));
        try (CacheClient<String> client =
                Patient.builder().discovery(ChangingNodes.of(nodes::get)).build(Codecs.string())) {
            fill(client);
            assertEquals(0, items(servers.get(2)));
            nodes.set(servers.stream().map(Server::node).toList());
            Await.until("the third node", () -> items(servers.get(2)) > 0 || fill(client) == null);
            nodes.set(List.of());
            nodes.set(List.of(servers.get(2).node()));
            Await.until(
                    "only the third node",
                    () -> fill(client) != null && items(servers.get(2)) == 300);
        }
    }

    @Test
    void addressesComeFromTheDomainNameSystem() throws Exception {
        Discovery discovery = Discovery.dnsAddresses("localhost", servers.get(0).port(), TTL);
        assertTrue(discovery.nodes().contains(servers.get(0).node()));
        assertEquals(TTL, discovery.period());
    }

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

    @Test
    void noNodesAreAnErrorOfTheConfiguration() {
        assertThrows(
                CacheException.Configuration.class,
                () ->
                        CacheClient.builder()
                                .discovery(Discovery.dnsAddresses("no.such.host.invalid", 1, TTL))
                                .build(Codecs.string()));
        assertThrows(IllegalArgumentException.class, () -> CacheClient.builder().nodes(List.of()));
    }
}
