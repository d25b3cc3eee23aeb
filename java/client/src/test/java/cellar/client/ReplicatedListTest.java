package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.AsyncView;
import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.testing.Await;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Replicated nodes that another list of nodes replaces, adds and removes. */
@Tag("deep")
class ReplicatedListTest {
    private static final Duration TTL = Duration.ofSeconds(1000);
    private static final Map<String, String> ITEMS =
            IntStream.range(0, 20)
                    .boxed()
                    .collect(Collectors.toMap(i -> "k" + i, i -> "value-" + i));

    private final List<Server> servers = new ArrayList<>();
    private final List<CacheClient<String>> clients = new ArrayList<>();

    private void start(Server.Kind kind, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            servers.add(Server.start(kind));
        }
    }

    private CacheClient<String> open(int... list) {
        CacheClient<String> client =
                CacheClient.builder()
                        .nodes(IntStream.of(list).mapToObj(i -> servers.get(i).node()).toList())
                        .mode(CacheClientBuilder.Mode.REPLICATED)
                        .timeout(Duration.ofSeconds(5))
                        .backoff(Duration.ofMillis(5), Duration.ofMillis(50))
                        .build(Codecs.string());
        clients.add(client);
        return client;
    }

    @AfterEach
    void shut() {
        clients.forEach(CacheClient::close);
        servers.forEach(Server::close);
    }

    private static boolean isWhole(CacheClient<String> client) {
        return ((ReplicatedCluster) ((AsyncView<String>) client).core().cluster()).isWhole();
    }

    private void untilAllWhole() throws Exception {
        for (CacheClient<String> client : clients) {
            untilWhole(client);
        }
    }

    private static void untilWhole(CacheClient<String> client) throws Exception {
        Await.until("its nodes have everything", () -> isWhole(client));
    }

    private void store(int... list) throws Exception {
        CacheClient<String> client = open(list);
        untilWhole(client);
        client.blocking().setMany(ITEMS, TTL);
        client.close();
    }

    /** All items can be read at once, and from the last of {@code list} alone when it is filled. */
    private void isThere(int... list) throws Exception {
        CacheClient<String> client = open(list);
        assertEquals(ITEMS, client.blocking().getMany(ITEMS.keySet()));
        untilWhole(client);
        for (int i = 0; i < list.length - 1; i++) {
            servers.get(list[i]).kill();
        }
        assertEquals(ITEMS, client.blocking().getMany(ITEMS.keySet()));
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void aNodeIsReplaced(Server.Kind kind) throws Exception {
        start(kind, 3);
        store(0, 1);
        isThere(0, 2);
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void aNodeThatDiedWhileNoClientRanIsReplaced(Server.Kind kind) throws Exception {
        start(kind, 3);
        store(0, 1);
        servers.get(1).kill();
        isThere(0, 2);
    }

    /** Cellar rewrites an item when its version is requested for the first time. */
    @Test
    void aNodeIsFilledWithoutAWriteToTheOthers() throws Exception {
        start(Server.Kind.CELLAR, 3);
        store(0, 1);
        for (int i = 0; i < 200; i++) {
            servers.get(0).ask("set other-" + i + " 0 0 5\r\nvalue\r\n", "STORED");
        }
        Map<String, Long> before = sizes(servers.get(0));
        CacheClient<String> client = open(0, 2);
        untilWhole(client);
        Map<String, Long> after = sizes(servers.get(0));
        assertEquals("value", client.blocking().get("other-0"));
        assertEquals(before.get("curr_items"), after.get("curr_items"));
        // The view has become longer by one name.
        long grown = after.get("bytes") - before.get("bytes");
        assertTrue(grown < 100, "more bytes than before: " + grown);
        long dead = after.get("dead_bytes") - before.get("dead_bytes");
        assertTrue(dead < 1000, "more reclaimable bytes than before: " + dead);
    }

    private static Map<String, Long> sizes(Server server) throws Exception {
        Pattern line =
                Pattern.compile("STAT (curr_items|item_bytes_copied|bytes|dead_bytes) (\\d+)");
        return line.matcher(server.ask("stats\r\n", "END"))
                .results()
                .collect(Collectors.toMap(m -> m.group(1), m -> Long.valueOf(m.group(2))));
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void aNodeIsRemoved(Server.Kind kind) throws Exception {
        start(kind, 3);
        store(0, 1, 2);
        isThere(0, 2);
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void aNodeIsAdded(Server.Kind kind) throws Exception {
        start(kind, 3);
        store(0, 1);
        isThere(0, 1, 2);
    }

    @ParameterizedTest
    @EnumSource(Server.Kind.class)
    void clientsChangeTheirListsOneAfterTheOtherAndNothingIsLost(Server.Kind kind)
            throws Exception {
        start(kind, 3);
        for (int i = 0; i < 3; i++) {
            open(0, 1);
        }
        untilAllWhole();
        int written = 0;
        for (int next = 0; next < clients.size(); next++) {
            clients.get(next).close();
            clients.set(next, clients.remove(openedLast(0, 2)));
            for (int i = 0; i < 30; i++) {
                CacheClient<String> writer = clients.get(i % clients.size());
                writer.blocking().set("k", "" + written, TTL);
                writer.blocking().addOrIncrement("n", 1, TTL);
                written++;
                for (CacheClient<String> reader : clients) {
                    assertEquals("" + (written - 1), reader.blocking().get("k"));
                    assertEquals(written, reader.blocking().getCounter("n"));
                }
            }
        }
        untilAllWhole();
        servers.get(0).kill();
        for (CacheClient<String> reader : clients) {
            assertEquals("" + (written - 1), reader.blocking().get("k"));
            assertEquals(written, reader.blocking().getCounter("n"));
        }
    }

    private int openedLast(int... list) {
        open(list);
        return clients.size() - 1;
    }
}
