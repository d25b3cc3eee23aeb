package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cellar.client.testing.Server;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletionException;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Test;

/** Encrypted and authenticated connections, against memcached itself. */
class SecurityTest {
    private static final char[] PASSWORD = "changeit".toCharArray();
    private static final Duration TTL = Duration.ofMinutes(1);

    private static KeyStore keys(String host) throws Exception {
        Path file = Files.createTempDirectory("cellar").resolve("keys.p12");
        String keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        Process process =
                new ProcessBuilder(
                                keytool,
                                "-genkeypair",
                                "-alias",
                                "server",
                                "-keyalg",
                                "EC",
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

    private static Server encrypted(KeyStore keys, String... more) throws Exception {
        Path certificate =
                Server.file(
                        "certificate.pem",
                        pem("CERTIFICATE", keys.getCertificate("server").getEncoded()));
        Path key =
                Server.file(
                        "key.pem",
                        pem("PRIVATE KEY", keys.getKey("server", PASSWORD).getEncoded()));
        certificate.toFile().setReadable(true, false);
        key.toFile().setReadable(true, false);
        String options = "ssl_chain_cert=" + certificate + ",ssl_key=" + key;
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
        return CacheClient.builder()
                .timeout(Duration.ofSeconds(20))
                .connectTimeout(Duration.ofSeconds(20))
                .nodes(List.of(server.node()))
                .tls(tls)
                .build(Codecs.string());
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
        return CacheClient.builder()
                .timeout(Duration.ofSeconds(20))
                .connectTimeout(Duration.ofSeconds(20))
                .nodes(List.of(server.node()))
                .credentials("ada", password)
                .build(Codecs.string());
    }
}
