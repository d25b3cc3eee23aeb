package cellar.clients;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import net.spy.memcached.ClientMode;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The nodes of a cluster as ElastiCache's client for memcached finds them. It shares keys out by a
 * ring of its own, so it finds the keys for which that names the node that has them.
 */
class ElastiCacheTest {
    private static final int KEYS = 1000;
    private static final int KEYS_OF_A_RING_MIN = 200;
    private static final List<InetSocketAddress> NODES = ClusterStage.nodes("CLUSTER_MEMCACHED");
    private static final List<String> NAMES =
            IntStream.range(0, KEYS).mapToObj(i -> "elasticache:" + i).toList();

    @ParameterizedTest
    @ValueSource(strings = {"goes", "comes", "dies", "returns"})
    void followsTheNodes(String scene) throws Exception {
        boolean leaves = List.of("goes", "dies").contains(scene);
        // A client for each scene: once it has followed a change it may ask no more for 50 seconds.
        MemcachedClient client = new MemcachedClient(new OftenAsked(), NODES.subList(0, 1));
        try {
            findsWhatItsRingNames(client, leaves ? NODES : NODES.subList(0, 2), "first");
            ClusterStage.play(scene);
            findsWhatItsRingNames(client, leaves ? NODES.subList(0, 2) : NODES, scene);
        } finally {
            client.shutdown();
        }
    }

    private static void findsWhatItsRingNames(
            MemcachedClient client, List<InetSocketAddress> nodes, String value) throws Exception {
        Map<String, InetSocketAddress> owners = new HashMap<>();
        for (InetSocketAddress node : nodes) {
            store(node, value, owners);
        }
        assertEquals(KEYS, owners.size());
        Await.until(
                "as many nodes",
                () ->
                        client.getAvailableServers().size() == nodes.size()
                                && client.getNodeLocator().getAll().size() == nodes.size());
        long named = NAMES.stream().filter(name -> isNamed(client, name, owners.get(name))).count();
        assertTrue(named > KEYS_OF_A_RING_MIN, named + " keys");
        // The client itself waits less, and is to: it asks a dead node for the nodes, too.
        Map<String, Object> found = client.asyncGetBulk(NAMES).get(60, TimeUnit.SECONDS);
        assertEquals(named, found.size());
        assertEquals(named, Collections.frequency(found.values(), value));
    }

    private static boolean isNamed(MemcachedClient client, String name, InetSocketAddress owner) {
        return client.getNodeLocator().getPrimary(name).getSocketAddress().equals(owner);
    }

    /** Has a node store all keys; it takes its own, and notes whose they are. */
    private static void store(
            InetSocketAddress node, String value, Map<String, InetSocketAddress> owners)
            throws IOException {
        StringBuilder requests = new StringBuilder();
        for (String name : NAMES) {
            requests.append("set " + name + " 0 600 " + value.length() + "\r\n" + value + "\r\n");
        }
        try (Socket socket = new Socket(node.getAddress(), node.getPort())) {
            socket.getOutputStream().write(requests.toString().getBytes(US_ASCII));
            InputStreamReader bytes = new InputStreamReader(socket.getInputStream(), US_ASCII);
            BufferedReader replies = new BufferedReader(bytes);
            for (String name : NAMES) {
                if (replies.readLine().equals("STORED")) {
                    owners.put(name, node);
                }
            }
        }
    }

    /** Asks for the nodes each moment, where the client does it each minute. */
    private static final class OftenAsked extends DefaultConnectionFactory {
        private static final long POLL_MS = 100;

        OftenAsked() {
            super(ClientMode.Dynamic);
        }

        @Override
        public long getDynamicModePollingInterval() {
            return POLL_MS;
        }
    }
}
