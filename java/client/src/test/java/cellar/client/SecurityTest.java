package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.config.CacheConfiguration;
import cellar.client.testing.Await;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CompletionException;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Encrypted and authenticated connections, with memcached itself. */
@Tag("deep")
class SecurityTest {
    private static final char[] PASSWORD = "changeit".toCharArray();
    private static final Duration TTL = Duration.ofMinutes(1);

    private static KeyStore keys(String host) throws Exception {
        return keys(host, "EC");
    }

    static KeyStore keys(String host, String algorithm) throws Exception {
        Path file = Files.createTempDirectory("cellar").resolve("keys.p12");
        String keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        Process process =
                new ProcessBuilder(
                                keytool,
                                "-genkeypair",
                                "-alias",
                                "server",
                                "-keyalg",
                                algorithm,
                                "-dname",
                                "CN=test",
                                "-ext",
                                "SAN=" + host,
                                "-keystore",
                                file.toString(),
                                "-storetype",
                                "PKCS12",
                                "-storepass",
                                new String(PASSWORD))
                        .redirectErrorStream(true)
                        .start();
        assertEquals(0, process.waitFor());
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(file)) {
            keys.load(in, PASSWORD);
        }
        return keys;
    }

    private static String pem(String kind, byte[] bytes) {
        String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
        return "-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n";
    }

    static Path certificate(KeyStore keys) throws Exception {
        byte[] bytes = keys.getCertificate("server").getEncoded();
        return readable(Server.file("certificate.pem", pem("CERTIFICATE", bytes)));
    }

    private static Path key(KeyStore keys) throws Exception {
        return readable(privateKey(keys));
    }

    /** A file that only its owner can read. */
    static Path privateKey(KeyStore keys) throws Exception {
        byte[] bytes = keys.getKey("server", PASSWORD).getEncoded();
        return Server.file("key.pem", pem("PRIVATE KEY", bytes));
    }

    private static Path readable(Path file) {
        file.toFile().setReadable(true, false);
        return file;
    }

    private static Server encrypted(KeyStore keys) throws Exception {
        String options = "ssl_chain_cert=" + certificate(keys) + ",ssl_key=" + key(keys);
        return Server.memcached(0, "-Z", "-o", options);
    }

    private static SSLContext trusting(KeyStore keys) throws Exception {
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        trusted.setCertificateEntry("server", keys.getCertificate("server"));
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    private static CacheClient<String> client(Server server, SSLContext tls) {
        return Patient.builder().nodes(List.of(server.node())).tls(tls).build(Codecs.string());
    }

    @Test
    void bothFacesSpeakTls() throws Exception {
        KeyStore keys = keys("IP:127.0.0.1");
        try (Server server = encrypted(keys);
                CacheClient<String> client = client(server, trusting(keys))) {
            String large = "x".repeat(200_000);
            client.blocking().set("k", large, TTL);
            assertEquals(large, client.blocking().get("k"));
            assertEquals(large, client.get("k").toCompletableFuture().join());
        }
    }

    @Test
    void aCertificateForAnotherHostIsRefused() throws Exception {
        KeyStore keys = keys("DNS:elsewhere.test");
        try (Server server = encrypted(keys);
                CacheClient<String> client = client(server, trusting(keys))) {
            assertThrows(CacheException.Connection.class, () -> client.blocking().get("k"));
            assertThrows(
                    CompletionException.class, () -> client.get("k").toCompletableFuture().join());
        }
    }

    @Test
    void aCertificateNobodyTrustsIsRefused() throws Exception {
        try (Server server = encrypted(keys("IP:127.0.0.1"));
                CacheClient<String> client = client(server, trusting(keys("IP:127.0.0.1")))) {
            assertThrows(CacheException.Connection.class, () -> client.blocking().get("k"));
        }
    }

    @Test
    void connectionsAuthenticateThemselves() throws Exception {
        Path users = Server.file("users", "ada:secret\n");
        users.toFile().setReadable(true, false);
        try (Server server = Server.memcached(0, "-Y", users.toString())) {
            try (CacheClient<String> client = authenticated(server, "secret")) {
                client.blocking().set("k", "v", TTL);
                assertEquals("v", client.blocking().get("k"));
                assertEquals("v", client.get("k").toCompletableFuture().join());
            }
            try (CacheClient<String> client = authenticated(server, "wrong")) {
                CacheException refused =
                        assertThrows(CacheException.class, () -> client.blocking().get("k"));
                assertEquals(CacheException.Refused.class, refused.getClass());
                assertThrows(
                        CompletionException.class,
                        () -> client.get("k").toCompletableFuture().join());
            }
        }
    }

    private static CacheClient<String> authenticated(Server server, String password) {
        return Patient.builder()
                .nodes(List.of(server.node()))
                .credentials("ada", password)
                .build(Codecs.string());
    }

    /** Creates a cache from settings in the form of a file. */
    static CacheClient<Object> configured(String... settings) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("cache.c.timeout", "20s");
        properties.setProperty("cache.c.connect-timeout", "20s");
        for (int i = 0; i < settings.length; i += 2) {
            properties.setProperty("cache.c." + settings[i], settings[i + 1]);
        }
        CacheConfiguration configuration = CacheConfiguration.properties(properties);
        return configuration.cache("c").builder().build(configuration.cache("c").codec());
    }

    /** False while no port accepts connections: a server does not open all its ports at once. */
    private static <V> boolean stores(CacheClient<V> client, V value) {
        try {
            client.blocking().set("k", value, TTL);
            return true;
        } catch (CacheException.Connection e) {
            return false;
        }
    }

    @Test
    void aServerThatAsksForACertificateIsShownOneOverEitherProtocol() throws Exception {
        KeyStore keys = keys("IP:127.0.0.1");
        String certificate = certificate(keys).toString();
        String key = key(keys).toString();
        String options =
                "ssl_chain_cert=%1$s,ssl_key=%2$s,ssl_ca_cert=%1$s,ssl_verify_mode=2"
                        .formatted(certificate, key);
        int port = Server.freePort();
        try (Server memcached = Server.memcached(0, "-Z", "-o", options);
                Server redis =
                        Server.redis(
                                0,
                                "--tls-port",
                                "" + port,
                                "--tls-cert-file",
                                certificate,
                                "--tls-key-file",
                                key,
                                "--tls-ca-cert-file",
                                certificate)) {
            assertEquals(redis.port(), redis.respPort());
            for (String[] server :
                    new String[][] {{"memcached", "" + memcached.port()}, {"redis", "" + port}}) {
                String[] open = {"protocol", server[0], "nodes", "127.0.0.1:" + server[1]};
                String[] all = Arrays.copyOf(open, 10);
                List<String> shown =
                        List.of(
                                "tls-ca",
                                certificate,
                                "tls-certificate",
                                certificate,
                                "tls-key",
                                key);
                for (int i = 0; i < shown.size(); i++) {
                    all[open.length + i] = shown.get(i);
                }
                // A new context each time: memcached closes a resumed session if it requires
                // certificates.
                try (CacheClient<Object> client = configured(all)) {
                    Await.until("a set", () -> stores(client, "v"));
                }
                try (CacheClient<Object> client = configured(all)) {
                    assertEquals("v", client.get("k").toCompletableFuture().join());
                }
                try (CacheClient<Object> client =
                        configured(open[0], open[1], open[2], open[3], "tls-ca", certificate)) {
                    assertThrows(CacheException.class, () -> client.blocking().get("k"));
                    assertThrows(
                            CompletionException.class,
                            () -> client.get("k").toCompletableFuture().join());
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = CacheClientBuilder.Transport.class,
            names = {"EPOLL", "NIO"})
    void socketFilesLeadToServers(CacheClientBuilder.Transport transport) throws Exception {
        Path folder = Files.createTempDirectory("cellar");
        Path file = folder.resolve("redis.sock");
        String user = "user ada on >secret ~* &* +@all\nuser default off\n";
        Path users = Server.file("acl", user);
        try (Server redis =
                        Server.redis(
                                0, "--unixsocket", file.toString(), "--aclfile", users.toString());
                CacheClient<String> client =
                        Patient.builder()
                                .protocol(CacheClientBuilder.Protocol.REDIS)
                                .transport(transport)
                                .nodes(List.of(Node.unix(file)))
                                .credentials("ada", "secret")
                                .localCache(LocalCacheOptions.tracked(1 << 20, redis.port()))
                                .build(Codecs.string())) {
            String large = "x".repeat(200_000);
            Await.until("a set", () -> stores(client, large));
            assertEquals(large, client.blocking().get("k"));
            assertEquals(large, client.get("k").toCompletableFuture().join());
            // A copy is kept once the invalidation connection works.
            Await.until(
                    "a copy",
                    () ->
                            client.get("k", TTL).toCompletableFuture().join()
                                    == client.get("k", TTL).toCompletableFuture().join());
        }
    }

    @Test
    void memcachedIsReachedByItsSocketFile() throws Exception {
        Path file = Files.createTempDirectory("cellar").resolve("memcached.sock");
        Process process =
                new ProcessBuilder("memcached", "-s", file.toString(), "-u", "root").start();
        try (CacheClient<Object> client = configured("nodes", "unix:" + file + ":3 name")) {
            Await.until("a socket file", () -> Files.exists(file));
            Await.until("a set", () -> stores(client, "v"));
            assertEquals("v", client.blocking().get("k"));
            assertEquals("v", client.get("k").toCompletableFuture().join());
        } finally {
            process.destroyForcibly().waitFor();
        }
        try (CacheClient<Object> client = configured("nodes", "unix:/nowhere/at.all")) {
            assertThrows(CacheException.Connection.class, () -> client.blocking().get("k"));
            assertThrows(
                    CompletionException.class, () -> client.get("k").toCompletableFuture().join());
        }
    }

    @Test
    void settingsThatDoNotFitAreRefusedWithAReason() throws Exception {
        String nothing = Server.file("nothing.pem", "nothing").toString();
        for (String[] wrong :
                new String[][] {
                    {"nodes", "unix:relative", "not a node"},
                    {"nodes", "unix:/s:0", "not a node"},
                    {"nodes", "unix:/s", "tls", "true", "TLS is for nodes with a port"},
                    {
                        "nodes",
                        "unix:/s",
                        "local-cache-bytes",
                        "9",
                        "tracking-port",
                        "1",
                        "no track"
                    },
                    {"nodes", "h", "password", "p", "without user"},
                    {"nodes", "h", "user", "a b", "password", "p", "not a user"},
                    {"nodes", "h", "tls-key", nothing, "go together"},
                    {"nodes", "h", "tls-ca", nothing, "ertificate"},
                    {"nodes", "h", "tls-ca", "/nowhere", "/nowhere"},
                    {"nodes", "h", "tls-ca", nothing, "tls", "false", "tls is false"},
                }) {
            String[] settings = Arrays.copyOf(wrong, wrong.length - 1);
            CacheException refused =
                    assertThrows(
                            CacheException.Configuration.class, () -> configured(settings).close());
            String told = String.valueOf(refused.getMessage());
            assertTrue(told.contains(wrong[wrong.length - 1]), told);
        }
    }
}
