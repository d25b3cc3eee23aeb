package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.cluster.Ring;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import net.spy.memcached.DefaultHashAlgorithm;
import net.spy.memcached.KetamaNodeLocator;
import net.spy.memcached.MemcachedNode;
import net.spy.memcached.util.DefaultKetamaNodeLocatorConfiguration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Keys are on the same nodes as with other clients. java/vectors.py writes the vectors. */
class RingTest {
    private static final Map<String, List<Node>> CASES = cases();

    static {
        // spymemcached asserts a number of points that it does not create itself for nodes with
        // weights. Only tests enable its assertions.
        RingTest.class.getClassLoader().setPackageAssertionStatus("net.spy", false);
    }

    private static Map<String, List<Node>> cases() {
        Map<String, List<Node>> cases = new LinkedHashMap<>();
        for (String line : lines("cases.txt")) {
            String[] words = line.split(" ", 2);
            cases.computeIfAbsent(words[0], name -> new ArrayList<>()).add(Node.parse(words[1]));
        }
        return cases;
    }

    private static List<String> lines(String file) {
        try (InputStream in = RingTest.class.getResourceAsStream("/ring/" + file);
                BufferedReader lines =
                        new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
            return lines.lines().toList();
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static int port(Ring ring, String key) {
        return ring.node(key.getBytes(StandardCharsets.UTF_8)).port();
    }

    @ParameterizedTest
    @ValueSource(strings = {"libmemcached", "twemproxy"})
    void keysLieWhereItPutsThem(String program) {
        Map<String, Ring> rings = new HashMap<>();
        CASES.forEach((name, nodes) -> rings.put(name, new Ring(nodes)));
        List<String> vectors = lines(program + ".txt");
        assertTrue(vectors.size() >= 2000);
        for (String vector : vectors) {
            String[] words = vector.split(" ");
            assertEquals(Integer.parseInt(words[2]), port(rings.get(words[0]), words[1]), vector);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"equal", "weights", "many"})
    void keysLieWhereSpymemcachedPutsThem(String name) {
        List<Node> nodes = CASES.get(name);
        KetamaNodeLocator spy = spy(nodes);
        Ring ring = new Ring(nodes);
        for (int i = 0; i < 2000; i++) {
            String key = "spy-" + i;
            InetSocketAddress address = (InetSocketAddress) spy.getPrimary(key).getSocketAddress();
            assertEquals(address.getPort(), port(ring, key), key);
        }
    }

    /** spymemcached only uses the addresses of its nodes here. */
    private static KetamaNodeLocator spy(List<Node> nodes) {
        List<MemcachedNode> memcached = new ArrayList<>();
        Map<InetSocketAddress, Integer> weights = new HashMap<>();
        boolean weighted = nodes.stream().anyMatch(node -> node.weight() != 1);
        for (Node node : nodes) {
            InetSocketAddress address = new InetSocketAddress(node.host(), node.port());
            weights.put(address, node.weight());
            memcached.add(
                    (MemcachedNode)
                            java.lang.reflect.Proxy.newProxyInstance(
                                    RingTest.class.getClassLoader(),
                                    new Class<?>[] {MemcachedNode.class},
                                    (proxy, method, arguments) -> answer(method, address)));
        }
        DefaultKetamaNodeLocatorConfiguration configuration =
                new DefaultKetamaNodeLocatorConfiguration();
        return weighted
                ? new KetamaNodeLocator(
                        memcached, DefaultHashAlgorithm.KETAMA_HASH, weights, configuration)
                : new KetamaNodeLocator(memcached, DefaultHashAlgorithm.KETAMA_HASH, configuration);
    }

    private static Object answer(java.lang.reflect.Method method, InetSocketAddress address) {
        return switch (method.getName()) {
            case "getSocketAddress" -> address;
            case "hashCode" -> address.hashCode();
            default -> null;
        };
    }

    @Test
    void aRingOfOneNodeHasAllKeys() {
        Ring ring = new Ring(List.of(Node.of("a", 1)));
        assertEquals(1, port(ring, "anything"));
        assertEquals(List.of(Node.of("a", 1)), ring.order(new byte[] {1}));
    }

    @Test
    void theOrderOfANodesStandInsHasEachNodeOnce() {
        Ring ring = new Ring(CASES.get("many"));
        for (int i = 0; i < 100; i++) {
            byte[] key = ("k" + i).getBytes(StandardCharsets.UTF_8);
            List<Node> order = ring.order(key);
            assertEquals(9, order.stream().distinct().count());
            assertEquals(ring.node(key), order.get(0));
        }
    }

    @Test
    void aNodeThatLeavesMovesOnlyItsOwnKeys() {
        List<Node> nodes = CASES.get("equal");
        Ring before = new Ring(nodes);
        Ring after = new Ring(nodes.subList(0, 2));
        for (int i = 0; i < 1000; i++) {
            int port = port(before, "k" + i);
            if (port != nodes.get(2).port()) {
                assertEquals(port, port(after, "k" + i));
            }
        }
    }
}
