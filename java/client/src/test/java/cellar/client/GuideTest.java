package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cellar.client.testing.Await;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The examples in docs/guide, word for word: clients/examples.py looks them up here. */
class GuideTest {
    private static final Duration TTL = Duration.ofMinutes(10);

    static CacheClient<String> onEveryNode(List<Node> nodes) {
        return CacheClient.builder()
                .nodes(nodes)
                .mode(CacheClientBuilder.Mode.REPLICATED)
                .timeout(Duration.ofSeconds(2))
                .build(Codecs.string());
    }

    static CacheClient<String> withLocalCache(Node node, int respPort) {
        return CacheClient.builder()
                .nodes(List.of(node))
                .localCache(LocalCacheOptions.tracked(64 << 20, respPort))
                .timeout(Duration.ofSeconds(2))
                .build(Codecs.string());
    }

    @Test
    void aCellarThatDiesTakesNothingWithIt() throws Exception {
        try (Server first = Server.start(Server.Kind.CELLAR);
                Server second = Server.start(Server.Kind.CELLAR);
                CacheClient<String> client = onEveryNode(List.of(first.node(), second.node()))) {
            BlockingCacheClient<String> cache = client.blocking();
            for (int i = 0; i < 500; i++) {
                cache.set("key-" + i, "value-" + i, TTL);
            }
            // And the view, see docs/java-replication.md.
            Await.until("both have all", () -> items(first) == 501 && items(second) == 501);
            second.kill();
            for (int i = 0; i < 500; i++) {
                String key = "key-" + i;
                String value = "value-" + i;
                Await.until(key, () -> value.equals(cache.get(key)));
            }
        }
    }

    private static int items(Server server) throws Exception {
        String stats = server.ask("stats\r\n", "END");
        return stats.lines()
                .filter(line -> line.startsWith("STAT curr_items "))
                .mapToInt(line -> Integer.parseInt(line.split(" ")[2].strip()))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void aLocalCopyIsServedUntilTheItemChanges() throws Exception {
        try (Server server = Server.start(Server.Kind.CELLAR);
                CacheClient<String> near = withLocalCache(server.node(), server.respPort());
                CacheClient<String> other = onEveryNode(List.of(server.node()))) {
            BlockingCacheClient<String> cache = near.blocking();
            other.blocking().set("greeting", "hello", TTL);
            Await.until("a copy", () -> cache.get("greeting", TTL) == cache.get("greeting", TTL));
            assertEquals("hello", cache.get("greeting", TTL));
            other.blocking().set("greeting", "good bye", TTL);
            Await.until("the change", () -> "good bye".equals(cache.get("greeting", TTL)));
        }
    }
}
