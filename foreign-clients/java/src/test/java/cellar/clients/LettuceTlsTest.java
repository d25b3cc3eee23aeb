package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DefaultClientResources;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Lettuce over TLS, on Netty. */
class LettuceTlsTest {
    private static final int POOL = 4;
    private static final ClientResources THREADS = DefaultClientResources.create();

    private final List<RedisClient> opened = new ArrayList<>();

    static Stream<Arguments> ways() throws Exception {
        return JedisTlsTest.ways();
    }

    static Stream<String> versions() {
        return TlsServer.VERSIONS.stream();
    }

    private RedisClient trusting(
            TlsServer server, String authority, String certificate, String... versions) {
        RedisURI.Builder place =
                RedisURI.builder().withHost(TlsServer.HOST).withPort(server.port()).withSsl(true);
        if (server.user() != null) {
            place.withAuthentication(server.user(), server.password().toCharArray());
        } else if (server.password() != null) {
            place.withPassword(server.password().toCharArray());
        }
        SslOptions.Builder tls =
                SslOptions.builder()
                        .jdkSslProvider()
                        .trustManager(TlsServer.file(authority + ".pem").toFile());
        if (certificate != null) {
            tls.keyManager(
                    TlsServer.file(certificate + ".pem").toFile(),
                    TlsServer.file(certificate + ".key").toFile(),
                    new char[0]);
        }
        if (versions.length > 0) {
            tls.protocols(versions);
        }
        RedisClient client = RedisClient.create(THREADS, place.build());
        client.setOptions(ClientOptions.builder().sslOptions(tls.build()).build());
        opened.add(client);
        return client;
    }

    private RedisClient client(TlsServer server, String... versions) {
        return trusting(server, "ca", server.certificate(), versions);
    }

    @AfterEach
    void close() {
        opened.forEach(client -> client.shutdown(0, 5, TimeUnit.SECONDS));
    }

    @AfterAll
    static void endThreads() {
        THREADS.shutdown(0, 5, TimeUnit.SECONDS);
    }

    @ParameterizedTest
    @MethodSource("ways")
    void severalConnectionsAnswerInOrder(TlsServer server, String version) throws Exception {
        RedisClient client = client(server, version);
        List<RedisFuture<byte[]>> read = new ArrayList<>();
        for (int i = 0; i < POOL; i++) {
            StatefulRedisConnection<byte[], byte[]> connection =
                    client.connect(ByteArrayCodec.INSTANCE);
            for (int size : TlsServer.SIZES) {
                String name = "lettuce-" + i + "-" + size;
                byte[] key = name.getBytes(StandardCharsets.US_ASCII);
                connection.async().set(key, TlsServer.value(size));
                read.add(connection.async().get(key));
            }
        }
        for (int i = 0; i < read.size(); i++) {
            int size = TlsServer.SIZES.get(i % TlsServer.SIZES.size());
            assertArrayEquals(TlsServer.value(size), read.get(i).get(60, TimeUnit.SECONDS));
        }
    }

    @ParameterizedTest
    @MethodSource("ways")
    void messagesReachSubscribers(TlsServer server, String version) throws Exception {
        AtomicReference<String> heard = new AtomicReference<>();
        RedisClient client = client(server, version);
        StatefulRedisPubSubConnection<String, String> listener = client.connectPubSub();
        listener.addListener(
                new RedisPubSubAdapter<String, String>() {
                    @Override
                    public void message(String channel, String message) {
                        heard.set(message);
                    }
                });
        listener.sync().subscribe("lettuce-news");
        assertEquals(1L, client.connect().sync().publish("lettuce-news", "hello"));
        Await.until("the message", () -> "hello".equals(heard.get()));
    }

    @ParameterizedTest
    @MethodSource("ways")
    void aCertificateOfAnotherAuthorityIsRefused(TlsServer server, String version) {
        RedisClient client = trusting(server, "other", server.certificate(), version);
        RedisException refusal = assertThrows(RedisException.class, client::connect);
        assertTrue(refusal.getCause().toString().contains("PKIX path"), refusal.toString());
    }

    @ParameterizedTest
    @MethodSource("versions")
    void onlyACertificateOfTheAuthorityComesIn(String version) throws Exception {
        TlsServer server = TlsServer.named(TlsServer.MUTUAL);
        String info = client(server, version).connect().sync().clientInfo();
        assertTrue(info.contains(" identity=alice"), info);
        for (String certificate : new String[] {null, "stranger"}) {
            RedisClient refused = trusting(server, "ca", certificate, version);
            assertThrows(RedisException.class, refused::connect);
        }
    }

    @ParameterizedTest
    @MethodSource("ways")
    void aConnectionThatIsCutIsMadeAnew(TlsServer server, String version) throws Exception {
        RedisClient client = client(server, version);
        StatefulRedisConnection<String, String> connection = client.connect();
        long id = connection.sync().clientId();
        StatefulRedisConnection<String, String> other = client.connect();
        assertEquals(1L, other.sync().clientKill(KillArgs.Builder.id(id)));
        Await.until("another connection", () -> isServedAnew(connection, id));
    }

    private static boolean isServedAnew(
            StatefulRedisConnection<String, String> connection, long old) {
        try {
            return connection.sync().clientId() != old;
        } catch (RedisException cut) {
            return false;
        }
    }

    @Test
    void connectionsOutliveTheirCertificate() throws Exception {
        TlsServer server = TlsServer.named(TlsServer.CHANGING);
        StatefulRedisConnection<String, String> connection = client(server).connect();
        long id = connection.sync().clientId();
        server.waitForAnotherCertificate();
        assertEquals(id, connection.sync().clientId());
    }
}
