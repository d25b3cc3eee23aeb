package cellar.bench;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.Codec;
import cellar.client.Codecs;
import cellar.client.Node;
import com.spotify.folsom.ConnectFuture;
import com.spotify.folsom.MemcacheClient;
import com.spotify.folsom.MemcacheClientBuilder;
import com.spotify.folsom.Transcoder;
import com.spotify.folsom.transcoder.SerializableObjectTranscoder;
import com.spotify.folsom.transcoder.StringTranscoder;
import io.lettuce.core.RedisClient;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.impl.KetamaMemcachedSessionLocator;
import net.rubyeye.xmemcached.utils.AddrUtil;

/** Connects each client and calls its methods. */
final class Peers {
    private Peers() {}

    /** Cellar's client; {@code more} changes its settings. */
    @SuppressWarnings("unchecked")
    static Peer cellar(List<Integer> ports, Codec<?> codec, Consumer<CacheClientBuilder> more) {
        Duration ttl = Duration.ofSeconds(Peer.TTL_S);
        CacheClientBuilder builder =
                CacheClient.builder()
                        .nodes(ports.stream().map(port -> Node.of("127.0.0.1", port)).toList())
                        .timeout(Duration.ofSeconds(10));
        more.accept(builder);
        CacheClient<Object> client = builder.build((Codec<Object>) codec);
        BlockingCacheClient<Object> blocking = client.blocking();
        return new Peer(
                blocking::get,
                (key, stored) -> blocking.set(key, stored, ttl),
                (key, done) -> client.get(key).whenComplete((found, failure) -> done.accept(found)),
                client::close);
    }

    /** Returns the codec of a kind of values: objects are stored as JSON. */
    static Codec<?> codec(String value) {
        return value.equals("object") ? Codecs.json(Values.Order.class) : Codecs.string();
    }

    static Peer xmemcached(List<Integer> ports, boolean binary) throws Exception {
        XMemcachedClientBuilder builder =
                new XMemcachedClientBuilder(AddrUtil.getAddresses(String.join(" ", nodes(ports))));
        builder.setSessionLocator(new KetamaMemcachedSessionLocator());
        builder.setOpTimeout(10_000);
        if (binary) {
            builder.setCommandFactory(new BinaryCommandFactory());
        }
        MemcachedClient client = builder.build();
        return new Peer(
                client::get, (key, value) -> client.set(key, Peer.TTL_S, value), client::shutdown);
    }

    /**
     * Folsom, with its string transcoder, or for objects the serialising one.
     *
     * <p>Replies complete on its event loop. Its default is the common pool, which starts a thread
     * for each reply if there are two processors or fewer.
     */
    static Peer folsom(List<Integer> ports, boolean binary, String value) throws Exception {
        MemcacheClientBuilder<Object> builder =
                new MemcacheClientBuilder<>(transcoder(value))
                        .withReplyExecutor(Runnable::run)
                        .withConnectionTimeoutMillis(10_000)
                        .withMaxOutstandingRequests(10_000);
        ports.forEach(port -> builder.withAddress("127.0.0.1", port));
        MemcacheClient<Object> client = binary ? builder.connectBinary() : builder.connectAscii();
        ConnectFuture.connectFuture(client).toCompletableFuture().get();
        return new Peer(
                key -> client.get(key).toCompletableFuture().get(),
                (key, stored) -> client.set(key, stored, Peer.TTL_S).toCompletableFuture().get(),
                (key, done) -> client.get(key).whenComplete((found, failure) -> done.accept(found)),
                client::shutdown);
    }

    /** Returns Folsom's transcoder for a kind of values. */
    @SuppressWarnings("unchecked")
    private static Transcoder<Object> transcoder(String value) {
        Transcoder<?> transcoder =
                value.equals("object")
                        ? SerializableObjectTranscoder.INSTANCE
                        : new StringTranscoder(StandardCharsets.UTF_8);
        return (Transcoder<Object>) transcoder;
    }

    /** Lettuce, over the Redis protocol; values are encoded as for Folsom. */
    static Peer lettuce(int port, String value) {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + port);
        StatefulRedisConnection<String, Object> connection =
                client.connect(new Transcoded(transcoder(value)));
        SetArgs options = SetArgs.Builder.ex(Peer.TTL_S);
        return new Peer(
                connection.sync()::get,
                (key, stored) -> connection.sync().set(key, stored, options),
                (key, done) ->
                        connection
                                .async()
                                .get(key)
                                .whenComplete((found, failure) -> done.accept(found)),
                () -> {
                    connection.close();
                    client.shutdown();
                });
    }

    private record Transcoded(Transcoder<Object> values) implements RedisCodec<String, Object> {
        @Override
        public String decodeKey(ByteBuffer bytes) {
            return StringCodec.UTF8.decodeKey(bytes);
        }

        @Override
        public ByteBuffer encodeKey(String key) {
            return StringCodec.UTF8.encodeKey(key);
        }

        @Override
        public Object decodeValue(ByteBuffer bytes) {
            byte[] value = new byte[bytes.remaining()];
            bytes.get(value);
            return values.decode(value);
        }

        @Override
        public ByteBuffer encodeValue(Object value) {
            return ByteBuffer.wrap(values.encode(value));
        }
    }

    private static List<String> nodes(List<Integer> ports) {
        return ports.stream().map(port -> "127.0.0.1:" + port).collect(Collectors.toList());
    }
}
