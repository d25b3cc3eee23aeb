package cellar.client.internal.net;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.Codecs;
import cellar.client.internal.AsyncView;
import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.StatsOperation;
import cellar.client.testing.Await;
import cellar.client.testing.FaultyServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** When a copy is believed again, step by step: its servers answer when the test lets them. */
class ReplicaTrustTest {
    private final List<FaultyServer> servers = new ArrayList<>();
    private CacheClient<String> client;
    private ReplicatedCluster cluster;

    @BeforeEach
    void open() throws Exception {
        for (int i = 0; i < 3; i++) {
            FaultyServer server = new FaultyServer();
            server.answer("HD\r\n");
            server.answer("flush_all", "OK\r\n");
            server.answer("lru_crawler", "END\r\n");
            startsAnew(server, i);
            servers.add(server);
        }
        client =
                CacheClient.builder()
                        .nodes(servers.stream().map(FaultyServer::node).toList())
                        .mode(CacheClientBuilder.Mode.REPLICATED)
                        .timeout(Duration.ofMillis(500))
                        .backoff(Duration.ofMillis(5), Duration.ofMillis(50))
                        .build(Codecs.string());
        cluster = (ReplicatedCluster) ((AsyncView<String>) client).core().cluster();
        for (int i = 0; i < 3; i++) {
            int server = i;
            Await.until("it is known", () -> servers.get(server).requests("stats") > 0);
            settle(i);
        }
        assertTrue(cluster.isWhole());
    }

    @AfterEach
    void shut() {
        client.close();
        servers.forEach(FaultyServer::close);
    }

    /** From now on the server is another process. */
    private static void startsAnew(FaultyServer server, int pid) {
        server.answer(
                "stats", "STAT pid " + pid + "\r\nSTAT time 100\r\nSTAT uptime 10\r\nEND\r\n");
    }

    /** Returns when what this node has answered before has had its effect. */
    private void settle(int node) {
        cluster.endpoints().get(node).submit(new StatsOperation()).join();
    }

    private String keyOf(int node) {
        Endpoint home = cluster.endpoints().get(node);
        return IntStream.range(0, 1000)
                .mapToObj(i -> "k" + i)
                .filter(key -> cluster.home(Keys.bytes(key)) == home)
                .findFirst()
                .orElseThrow();
    }

    /** A node returns, and its filling waits until the first node may list its keys. */
    private CountDownLatch fillingBegins(FaultyServer returned) throws Exception {
        FaultyServer source = servers.get(0);
        CountDownLatch listing = new CountDownLatch(1);
        source.beforeReply(listing);
        startsAnew(returned, 7);
        returned.closeConnections();
        Await.until("the source is listed", () -> source.requests("lru_crawler") == 1);
        return listing;
    }

    private boolean isAtFirst(int key) {
        return cluster.home(Keys.bytes("k" + key)) == cluster.endpoints().get(0);
    }

    @Test
    void aSecondLookAtANodeThatIsBeingFilledDoesNotMakeItTrusted() throws Exception {
        FaultyServer returned = servers.get(1);
        CountDownLatch listing = fillingBegins(returned);
        int looks = returned.requests("stats");
        cluster.endpoints().get(1).up();
        Await.until("it is looked at again", () -> returned.requests("stats") > looks);
        settle(1);
        assertFalse(cluster.isWhole());
        listing.countDown();
        Await.until("all are trusted", cluster::isWhole);
    }

    @Test
    void aLookThatFailedIsTakenAgain() throws Exception {
        FaultyServer returned = servers.get(1);
        int looks = returned.requests("stats");
        returned.answer("stats", "SERVER_ERROR busy\r\n");
        returned.closeConnections();
        Await.until("it is looked at", () -> returned.requests("stats") > looks);
        startsAnew(returned, 7);
        Await.until("all are trusted", cluster::isWhole);
    }

    @Test
    void whatWasReadFromANodeThatIsLostMeanwhileFillsNobody() throws Exception {
        FaultyServer returned = servers.get(1);
        CountDownLatch listing = fillingBegins(returned);
        client.blocking().delete(keyOf(2));
        Await.until("the source is lost", () -> IntStream.range(0, 100).noneMatch(this::isAtFirst));
        listing.countDown();
        Await.until("it is filled again", () -> returned.requests("flush_all") == 2);
        Await.until("all are trusted", cluster::isWhole);
    }
}
