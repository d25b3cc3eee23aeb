package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Await;
import cellar.client.testing.Server;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Users of Cellar's user file: with passwords, with certificates, over UNIX sockets. */
@Tag("deep")
class UsersTest {
    private static final Duration TTL = Duration.ofMinutes(1);
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final String ANY = "127.0.0.1:0";

    /** Returns the row of a user whose password is its name and {@code -pw}. */
    private static String user(String name, String role, String rest) throws Exception {
        String hash = Server.hash(name + "-pw");
        return "[[user]]\nname = \"%s\"\nrole = \"%s\"\npasswords = [\"%s\"]\n%s\n"
                .formatted(name, role, hash, rest);
    }

    /** The user shop changes keys that begin with shop:, eyes reads them, mesh has other keys. */
    private static String users(String mesh) throws Exception {
        String prefixes = "prefixes = [\"shop:\"]";
        String text =
                user("shop", "write", prefixes)
                        + user("eyes", "read", prefixes)
                        + user("root", "admin", "")
                        + user("mesh", "write", "prefixes = [\"mesh:\"]\n" + mesh);
        return Server.file("users.toml", text).toString();
    }

    private static CacheClientBuilder builder(Server server, CacheClientBuilder.Protocol protocol) {
        boolean redis = protocol == CacheClientBuilder.Protocol.REDIS;
        return CacheClient.builder()
                .timeout(PATIENCE)
                .connectTimeout(PATIENCE)
                .protocol(protocol)
                .nodes(List.of(Node.of("127.0.0.1", redis ? server.respPort() : server.port())));
    }

    private static CacheClient<String> client(
            Server server, CacheClientBuilder.Protocol protocol, String name) {
        return builder(server, protocol).credentials(name, name + "-pw").build(Codecs.string());
    }

    private static void refused(String word, Executable call) {
        String told = assertThrows(CacheException.Refused.class, call).getMessage();
        assertTrue(String.valueOf(told).contains(word), told);
        assertFalse(String.valueOf(told).contains("-pw"), told);
    }

    private static void refusedLater(String word, CompletionStage<?> call) {
        Throwable failure =
                assertThrows(CompletionException.class, () -> call.toCompletableFuture().join());
        Throwable cause = assertInstanceOf(CacheException.Refused.class, failure.getCause());
        assertTrue(String.valueOf(cause.getMessage()).contains(word), cause.getMessage());
    }

    @ParameterizedTest
    @EnumSource(CacheClientBuilder.Protocol.class)
    void aUserOfSomeKeysIsRefusedTheOthers(CacheClientBuilder.Protocol protocol) throws Exception {
        boolean redis = protocol == CacheClientBuilder.Protocol.REDIS;
        String word = redis ? "NOPERM" : "not permitted";
        try (Server server = Server.cellar(ANY, ANY, "--users", users("uids = [65533]"));
                CacheClient<String> shop = client(server, protocol, "shop");
                CacheClient<String> eyes = client(server, protocol, "eyes")) {
            shop.blocking().set("shop:k", "v", TTL);
            for (CacheClient<String> one : List.of(shop, eyes)) {
                assertEquals("v", one.blocking().get("shop:k"));
                assertEquals("v", one.get("shop:k").toCompletableFuture().join());
                refused(word, () -> one.blocking().get("other"));
                refused(word, () -> one.blocking().set("other", "v", TTL));
                refusedLater(word, one.get("other"));
                refusedLater(word, one.delete("other"));
            }
            refused(word, () -> eyes.blocking().set("shop:k", "w", TTL));
            refusedLater(word, eyes.set("shop:k", "w", TTL));
            assertEquals("v", shop.blocking().get("shop:k"));
        }
    }

    @ParameterizedTest
    @EnumSource(CacheClientBuilder.Protocol.class)
    void whoIsWrongIsToldSo(CacheClientBuilder.Protocol protocol) throws Exception {
        boolean redis = protocol == CacheClientBuilder.Protocol.REDIS;
        try (Server server = Server.cellar(ANY, ANY, "--users", users("uids = [65533]"));
                CacheClient<String> client =
                        builder(server, protocol)
                                .credentials("shop", "eyes-pw")
                                .build(Codecs.string())) {
            String word = redis ? "WRONGPASS" : "authentication failure";
            refused(word, () -> client.blocking().get("shop:k"));
            CompletionStage<String> later = client.get("shop:k");
            Throwable failure =
                    assertThrows(
                            CompletionException.class, () -> later.toCompletableFuture().join());
            assertTrue(String.valueOf(failure.getMessage()).contains(word), failure.getMessage());
        }
    }

    @ParameterizedTest
    @EnumSource(CacheClientBuilder.Protocol.class)
    void aUserOfSomeKeysIsToldOfTheirChanges(CacheClientBuilder.Protocol protocol)
            throws Exception {
        try (Server server = Server.cellar(ANY, ANY, "--users", users("uids = [65533]"));
                CacheClient<String> root = client(server, protocol, "root")) {
            for (String name : List.of("shop", "eyes")) {
                LocalCacheOptions tracked = LocalCacheOptions.tracked(1 << 20, server.respPort());
                try (CacheClient<String> client =
                        builder(server, protocol)
                                .credentials(name, name + "-pw")
                                .localCache(tracked)
                                .build(Codecs.string())) {
                    root.blocking().set("shop:k", "old", TTL);
                    Await.until(
                            "a copy",
                            () -> {
                                String one = client.blocking().get("shop:k", TTL);
                                return one != null && one == client.blocking().get("shop:k", TTL);
                            });
                    root.blocking().set("shop:k", "new", TTL);
                    Await.until(
                            "the news", () -> "new".equals(client.blocking().get("shop:k", TTL)));
                }
            }
        }
    }

    /** Creates a client from settings, over TLS with a client certificate. */
    private static CacheClient<Object> showing(
            Server server, String protocol, List<String> papers, String... more) throws Exception {
        int port = protocol.equals("redis") ? server.respPort() : server.port();
        Stream<String> open = Stream.of("protocol", protocol, "nodes", "127.0.0.1:" + port);
        Stream<String> rest = Stream.concat(papers.stream(), Stream.of(more));
        return SecurityTest.configured(Stream.concat(open, rest).toArray(String[]::new));
    }

    @ParameterizedTest
    @EnumSource(CacheClientBuilder.Protocol.class)
    void aCertificateIsAUserAndAPasswordAnotherOne(CacheClientBuilder.Protocol protocol)
            throws Exception {
        String name = protocol == CacheClientBuilder.Protocol.REDIS ? "redis" : "memcached";
        KeyStore keys = SecurityTest.keys("IP:127.0.0.1", "RSA");
        String certificate = SecurityTest.certificate(keys).toString();
        String key = SecurityTest.privateKey(keys).toString();
        List<String> papers =
                List.of("tls-ca", certificate, "tls-certificate", certificate, "tls-key", key);
        try (Server server =
                        Server.cellar(
                                "tls:" + ANY,
                                "tls:" + ANY,
                                "--users",
                                users("certificates = [\"test\"]"),
                                "--tls-cert",
                                certificate,
                                "--tls-key",
                                key,
                                "--tls-client-ca",
                                certificate);
                CacheClient<Object> mesh = showing(server, name, papers);
                CacheClient<Object> shop =
                        showing(server, name, papers, "user", "shop", "password", "shop-pw")) {
            mesh.blocking().set("mesh:k", "v", TTL);
            assertEquals("v", mesh.get("mesh:k").toCompletableFuture().join());
            shop.blocking().set("shop:k", "v", TTL);
            assertEquals("v", shop.get("shop:k").toCompletableFuture().join());
            for (CacheClient<Object> wrong : List.of(mesh, shop)) {
                String others = wrong == mesh ? "shop:k" : "mesh:k";
                assertThrows(CacheException.Refused.class, () -> wrong.blocking().get(others));
            }
        }
    }

    @Test
    void aSocketFileLeadsToAUserByItsUidOrItsPassword() throws Exception {
        Path folder = Files.createTempDirectory("cellar");
        Path memcached = folder.resolve("memcached.sock");
        Path resp = folder.resolve("resp.sock");
        Object uid = Files.getAttribute(folder, "unix:uid");
        try (Server server =
                Server.cellar(
                        "unix:" + memcached + "," + ANY,
                        "unix:" + resp + "," + ANY,
                        "--users",
                        users("uids = [" + uid + "]"))) {
            assertTrue(server.respPort() > 0);
            for (String[] open :
                    new String[][] {{"memcached", "" + memcached}, {"redis", "" + resp}}) {
                String nodes = "unix:" + open[1];
                try (CacheClient<Object> mesh =
                                SecurityTest.configured("protocol", open[0], "nodes", nodes);
                        CacheClient<Object> shop =
                                SecurityTest.configured(
                                        "protocol",
                                        open[0],
                                        "nodes",
                                        nodes,
                                        "user",
                                        "shop",
                                        "password",
                                        "shop-pw")) {
                    mesh.blocking().set("mesh:k", "v", TTL);
                    assertEquals("v", mesh.get("mesh:k").toCompletableFuture().join());
                    assertThrows(CacheException.Refused.class, () -> mesh.blocking().get("shop:k"));
                    shop.blocking().set("shop:k", "v", TTL);
                    assertEquals("v", shop.get("shop:k").toCompletableFuture().join());
                    assertThrows(CacheException.Refused.class, () -> shop.blocking().get("mesh:k"));
                }
            }
        }
    }
}
