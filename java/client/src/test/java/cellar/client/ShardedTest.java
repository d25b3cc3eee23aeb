package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Await;
import cellar.client.testing.ChangingNodes;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Keys distributed over several nodes, and discovery of nodes. */
@Tag("deep")
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
