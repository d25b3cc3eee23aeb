package cellar.bench;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.Codec;
import cellar.client.Codecs;
import cellar.client.Node;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;

/** This repository's client; objects travel as JSON. */
final class CellarPeer implements Peer {
    private static final Duration TTL = Duration.ofHours(1);

    private final CacheClient<Object> client;
    private final BlockingCacheClient<Object> blocking;

    CellarPeer(List<Integer> ports, String value) {
        this(ports, value, CacheClientBuilder.Mode.SHARDED);
    }

    CellarPeer(List<Integer> ports, String value, CacheClientBuilder.Mode mode) {
        client =
                CacheClient.builder()
                        .nodes(ports.stream().map(port -> Node.of("127.0.0.1", port)).toList())
                        .mode(mode)
                        .timeout(Duration.ofSeconds(10))
                        .build(codec(value));
        blocking = client.blocking();
    }

    @SuppressWarnings("unchecked")
    private static Codec<Object> codec(String value) {
        Codec<?> codec = value.equals("object") ? Codecs.json(Values.Order.class) : Codecs.string();
        return (Codec<Object>) codec;
    }

    @Override
    public Object get(String key) {
        return blocking.get(key);
    }

    @Override
    public void set(String key, Object value) {
        blocking.set(key, value, TTL);
    }

    @Override
    public void getAsync(String key, Consumer<Object> done) {
        client.get(key).whenComplete((value, failure) -> done.accept(value));
    }

    @Override
    public void close() {
        client.close();
    }
}
