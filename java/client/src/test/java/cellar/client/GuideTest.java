package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import cellar.client.config.CacheConfiguration;
import cellar.client.config.CacheRegistry;
import cellar.client.testing.Await;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * The examples in docs/java.md and docs/guide, character by character: foreign-clients/examples.py
 * compares them.
 */
@Tag("deep")
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

    static CacheClient<String> open() {
        return CacheClient.builder()
                .nodes("10.0.0.1:11211", "10.0.0.2:11211")
                .build(Codecs.string());
    }

    static Codec<Object> oldObjects() {
        return Codecs.whalin(
                WhalinOptions.plain()
                        .javaClasses(JavaClasses.of("com.example.Order", "com.example.dto.*")));
    }

    static String greet(CacheClient<String> client) {
        BlockingCacheClient<String> cache = client.blocking();
        cache.set("greeting", "hello", Duration.ofMinutes(10));
        CompletionStage<Integer> later = client.get("greeting").thenApply(String::length);
        return cache.get("greeting"); // null is a miss
    }

    static String user(CacheClient<String> client, String id, Function<String, String> database) {
        LoadOptions options =
                LoadOptions.ttl(Duration.ofMinutes(10))
                        .localTtl(Duration.ofMinutes(1))
                        .negativeTtl(Duration.ofSeconds(30));
        return client.blocking().getOrLoad("user:" + id, options, () -> database.apply(id));
    }

    static CacheClient<String> near() {
        return CacheClient.builder()
                .nodes("10.0.0.1:11211")
                .localCache(
                        LocalCacheOptions.tracked(64 << 20, 6379).localTtl(Duration.ofMinutes(1)))
                .build(Codecs.string());
    }

    static CacheClient<String> overRedis() {
        return CacheClient.builder()
                .protocol(CacheClientBuilder.Protocol.REDIS)
                .nodes("10.0.0.1:6379")
                .localCache(LocalCacheOptions.tracked(64 << 20, 6379))
                .build(Codecs.string());
    }

    static CacheClient<String> inMemory(AtomicLong clock_ns) {
        return CacheClient.builder().inMemory().ticker(clock_ns::get).build(Codecs.string());
    }

    static CacheRegistry caches(InputStream file) throws IOException {
        Properties properties = new Properties();
        properties.load(file);
        return CacheRegistry.of(CacheConfiguration.properties(properties));
    }

    static CacheRegistry oldCaches(InputStream file) {
        return CacheRegistry.of(CacheConfiguration.memcachedXml(file));
    }

    // The pages' clients wait for two seconds; a busy machine may take longer.

    private static CacheClient<String> patientOnEveryNode(List<Node> nodes) {
        return Patient.builder()
                .nodes(nodes)
                .mode(CacheClientBuilder.Mode.REPLICATED)
                .build(Codecs.string());
    }

    private static CacheClient<String> patientWithLocalCache(Node node, int respPort) {
        return Patient.builder()
                .nodes(List.of(node))
                .localCache(LocalCacheOptions.tracked(64 << 20, respPort))
                .build(Codecs.string());
    }

    @Test
    void theExamplesOfJavaDo() throws Exception {
        // Connections are opened when they are needed, so no node has to be there.
        Node none = Node.of("10.0.0.1", Node.PORT);
        onEveryNode(List.of(none)).close();
        withLocalCache(none, 6379).close();
        List.of(open(), near(), overRedis()).forEach(CacheClient::close);
        AtomicLong clock_ns = new AtomicLong();
        try (CacheClient<String> client = inMemory(clock_ns)) {
            assertEquals("hello", greet(client));
            clock_ns.addAndGet(Duration.ofMinutes(10).toNanos());
            assertNull(client.blocking().get("greeting"));
        }
        try (InputStream file = GuideTest.class.getResourceAsStream("/caches.properties");
                CacheRegistry caches = caches(file)) {
            assertEquals(List.of("users"), caches.names());
            caches.cache("users");
        }
        try (InputStream file = GuideTest.class.getResourceAsStream("/memcached.xml");
                CacheRegistry caches = oldCaches(file)) {
            assertEquals(List.of("orders", "users"), caches.names());
            caches.cache("orders");
            caches.cache("users");
        }
        try (Server server = Server.start(Server.Kind.CELLAR);
                CacheClient<String> client =
                        patientWithLocalCache(server.node(), server.respPort())) {
            assertEquals("hello", greet(client));
            assertEquals("Ada", user(client, "7", id -> id.equals("7") ? "Ada" : null));
            assertEquals("Ada", user(client, "7", id -> "other"));
            assertNull(user(client, "8", id -> null));
            assertNull(user(client, "8", id -> "other"));
        }
    }

    @Test
    void aCellarThatDiesTakesNothingWithIt() throws Exception {
        try (Server first = Server.start(Server.Kind.CELLAR);
                Server second = Server.start(Server.Kind.CELLAR);
                CacheClient<String> client =
                        patientOnEveryNode(List.of(first.node(), second.node()))) {
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
                Await.until(key, () -> has(cache, key, value));
            }
        }
    }

    /** Also false while it is not known which nodes are left. */
    private static boolean has(BlockingCacheClient<String> cache, String key, String value) {
        try {
            return value.equals(cache.get(key));
        } catch (CacheException e) {
            return false;
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
                CacheClient<String> near = patientWithLocalCache(server.node(), server.respPort());
                CacheClient<String> other = patientOnEveryNode(List.of(server.node()))) {
            BlockingCacheClient<String> cache = near.blocking();
            other.blocking().set("greeting", "hello", TTL);
            Await.until("a copy", () -> cache.get("greeting", TTL) == cache.get("greeting", TTL));
            assertEquals("hello", cache.get("greeting", TTL));
            other.blocking().set("greeting", "good bye", TTL);
            Await.until("the change", () -> "good bye".equals(cache.get("greeting", TTL)));
        }
    }
}
