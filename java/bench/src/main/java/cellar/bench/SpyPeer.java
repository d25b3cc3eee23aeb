package cellar.bench;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.function.Consumer;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;

/** spymemcached; the same code drives ElastiCache's client, which has its class names. */
public final class SpyPeer implements Peer {
    private static final int TTL_S = 3600;

    private final MemcachedClient client;

    /** Connects. */
    public SpyPeer(List<Integer> ports, Boolean binary) throws Exception {
        ConnectionFactoryBuilder builder =
                new ConnectionFactoryBuilder()
                        .setProtocol(binary ? Protocol.BINARY : Protocol.TEXT)
                        .setLocatorType(ConnectionFactoryBuilder.Locator.CONSISTENT)
                        .setOpTimeout(10_000);
        fixedNodes(builder);
        client =
                new MemcachedClient(
                        builder.build(),
                        ports.stream()
                                .map(port -> new InetSocketAddress("127.0.0.1", port))
                                .toList());
    }

    /** ElastiCache's client would ask for the cluster's configuration unless told not to. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void fixedNodes(ConnectionFactoryBuilder builder) throws Exception {
        for (java.lang.reflect.Method method : builder.getClass().getMethods()) {
            if (method.getName().equals("setClientMode")) {
                Class type = method.getParameterTypes()[0];
                method.invoke(builder, Enum.valueOf(type, "Static"));
            }
        }
    }

    @Override
    public Object get(String key) {
        return client.get(key);
    }

    @Override
    public void set(String key, Object value) throws Exception {
        client.set(key, TTL_S, value).get();
    }

    /** The value is decoded when the future is asked for it, which a caller would do too. */
    @Override
    public void getAsync(String key, Consumer<Object> done) {
        client.asyncGet(key).addListener(future -> done.accept(future.get()));
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
