package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** Jedis over TLS, as the JVM has it. */
class JedisTlsTest {
    private static final int POOL = 4;

    /** As long as an answer is waited for: a busy machine takes seconds. */
    private static final int PATIENCE_MS = 20_000;

    static Stream<Arguments> ways() throws Exception {
        return TlsServer.all()
                .flatMap(one -> TlsServer.VERSIONS.stream().map(it -> Arguments.of(one, it)));
    }

    static Stream<String> versions() {
        return TlsServer.VERSIONS.stream();
    }

    // Jedis's SslOptions make a context for each connection, so that no session goes on.
    @SuppressWarnings("deprecation")
    private static DefaultJedisClientConfig config(
            TlsServer server, SSLContext context, String... versions) {
        SSLParameters parameters = context.getDefaultSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        if (versions.length > 0) {
            parameters.setProtocols(versions);
        }
        return DefaultJedisClientConfig.builder()
                .ssl(true)
                .sslSocketFactory(context.getSocketFactory())
                .sslParameters(parameters)
                .user(server.user())
                .password(server.password())
                .timeoutMillis(PATIENCE_MS)
                .build();
    }

    private static RedisClient pool(TlsServer server, String version) throws Exception {
        SSLContext context = TlsServer.trust("ca", server.certificate());
        return RedisClient.builder()
                .hostAndPort(TlsServer.HOST, server.port())
                .clientConfig(config(server, context, version))
                .build();
    }

    private static Jedis one(TlsServer server, SSLContext context, String... versions) {
        HostAndPort place = new HostAndPort(TlsServer.HOST, server.port());
        return new Jedis(place, config(server, context, versions));
    }

    @ParameterizedTest
    @MethodSource("ways")
    void aPoolStoresAndReads(TlsServer server, String version) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(POOL);
        try (RedisClient client = pool(server, version)) {
            List<Future<?>> works = new ArrayList<>();
            for (int thread = 0; thread < POOL; thread++) {
                String prefix = "jedis-" + thread + "-";
                works.add(threads.submit(() -> storeAndRead(client, prefix)));
            }
            for (Future<?> work : works) {
                work.get(60, TimeUnit.SECONDS);
            }
        } finally {
            threads.shutdownNow();
        }
    }

    private static void storeAndRead(RedisClient client, String prefix) {
        for (int size : TlsServer.SIZES) {
            byte[] key = (prefix + size).getBytes(StandardCharsets.US_ASCII);
            assertEquals("OK", client.set(key, TlsServer.value(size)));
            assertArrayEquals(TlsServer.value(size), client.get(key));
        }
    }

    @ParameterizedTest
    @MethodSource("ways")
    void aPipelineAnswersInOrder(TlsServer server, String version) throws Exception {
        try (RedisClient client = pool(server, version)) {
            List<Response<String>> replies = new ArrayList<>();
            try (AbstractPipeline pipeline = client.pipelined()) {
                for (int i = 0; i < 1000; i++) {
                    pipeline.set("jedis-p" + i, "v" + i);
                    replies.add(pipeline.get("jedis-p" + i));
                }
                pipeline.sync();
            }
            for (int i = 0; i < 1000; i++) {
                assertEquals("v" + i, replies.get(i).get());
            }
        }
    }

    @ParameterizedTest
    @MethodSource("ways")
    void messagesReachSubscribers(TlsServer server, String version) throws Exception {
        CompletableFuture<String> heard = new CompletableFuture<>();
        JedisPubSub listener =
                new JedisPubSub() {
                    @Override
                    public void onMessage(String channel, String message) {
                        heard.complete(message);
                        unsubscribe();
                    }
                };
        try (RedisClient client = pool(server, version)) {
            CompletableFuture<Void> listening =
                    CompletableFuture.runAsync(() -> client.subscribe(listener, "jedis-news"));
            Await.until("a subscriber", () -> client.publish("jedis-news", "hello") == 1);
            assertEquals("hello", heard.get(60, TimeUnit.SECONDS));
            listening.get(60, TimeUnit.SECONDS);
        }
    }

    @ParameterizedTest
    @MethodSource("ways")
    void aCertificateOfAnotherAuthorityIsRefused(TlsServer server, String version)
            throws Exception {
        SSLContext other = TlsServer.trust("other", server.certificate());
        JedisConnectionException refusal =
                assertThrows(
                        JedisConnectionException.class, () -> one(server, other, version).ping());
        assertTrue(refusal.getCause().toString().contains("PKIX path"), refusal.toString());
    }

    @ParameterizedTest
    @MethodSource("versions")
    void onlyACertificateOfTheAuthorityComesIn(String version) throws Exception {
        TlsServer server = TlsServer.named(TlsServer.MUTUAL);
        try (Jedis client = one(server, TlsServer.trust("ca", "client"), version)) {
            assertTrue(client.clientInfo().contains(" identity=alice"));
        }
        for (String certificate : new String[] {null, "stranger"}) {
            SSLContext context = TlsServer.trust("ca", certificate);
            assertThrows(
                    JedisConnectionException.class, () -> one(server, context, version).ping());
        }
    }

    @ParameterizedTest
    @MethodSource("versions")
    void aSessionGoesOnWhenTheClientConnectsAnew(String version) throws Exception {
        for (String name : List.of(TlsServer.PASSWORDS, TlsServer.MUTUAL)) {
            TlsServer server = TlsServer.named(name);
            SSLContext context = TlsServer.trust("ca", server.certificate());
            long before = server.figure("cellar_tls_handshakes_resumed_total");
            for (int connection = 0; connection < 3; connection++) {
                try (Jedis client = one(server, context, version)) {
                    assertEquals("PONG", client.ping());
                }
            }
            assertEquals(before + 2, server.figure("cellar_tls_handshakes_resumed_total"), name);
        }
    }

    @Test
    void connectionsOutliveTheirCertificate() throws Exception {
        TlsServer server = TlsServer.named(TlsServer.CHANGING);
        try (Jedis client = one(server, TlsServer.trust("ca", server.certificate()))) {
            long id = client.clientId();
            server.waitForAnotherCertificate();
            assertEquals(id, client.clientId());
        }
    }
}
