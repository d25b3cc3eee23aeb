package cellar.bench;

import java.io.File;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.List;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;

/** spymemcached, and ElastiCache's client, which has the same class names. */
public final class Spy {
    private Spy() {}

    /** Connects spymemcached. */
    public static Peer open(List<Integer> ports, Boolean binary) throws Exception {
        ConnectionFactoryBuilder builder =
                new ConnectionFactoryBuilder()
                        .setProtocol(binary ? Protocol.BINARY : Protocol.TEXT)
                        .setLocatorType(ConnectionFactoryBuilder.Locator.CONSISTENT)
                        .setOpTimeout(10_000);
        fixedNodes(builder);
        List<InetSocketAddress> nodes =
                ports.stream().map(port -> new InetSocketAddress("127.0.0.1", port)).toList();
        MemcachedClient client = new MemcachedClient(builder.build(), nodes);
        // The value is decoded when the future's get is called, as an application would.
        return new Peer(
                client::get,
                (key, value) -> client.set(key, Peer.TTL_S, value).get(),
                (key, done) ->
                        client.asyncGet(key).addListener(future -> done.accept(future.get())),
                client::shutdown);
    }

    /** By default ElastiCache's client would request the configuration of a cluster. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void fixedNodes(ConnectionFactoryBuilder builder) throws Exception {
        for (Method method : builder.getClass().getMethods()) {
            if (method.getName().equals("setClientMode")) {
                Class type = method.getParameterTypes()[0];
                method.invoke(builder, Enum.valueOf(type, "Static"));
            }
        }
    }

    /** Connects ElastiCache's client: loads this class again, with the classes of that client. */
    static Peer elasticache(List<Integer> ports, boolean binary) throws Exception {
        String folder = System.getProperty("bench.apart", "target/apart");
        URL jar = new File(folder, "elasticache.jar").toURI().toURL();
        URL own = Spy.class.getProtectionDomain().getCodeSource().getLocation();
        @SuppressWarnings("resource")
        Apart apart = new Apart(new URL[] {jar, own});
        Class<?> spy = apart.loadClass("cellar.bench.Spy");
        return (Peer) spy.getMethod("open", List.class, Boolean.class).invoke(null, ports, binary);
    }

    private static final class Apart extends URLClassLoader {
        Apart(URL[] urls) {
            super(urls, Apart.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            boolean own = name.startsWith("net.spy.") || name.startsWith("cellar.bench.Spy");
            synchronized (getClassLoadingLock(name)) {
                if (own && findLoadedClass(name) == null) {
                    return findClass(name);
                }
                return super.loadClass(name, resolve);
            }
        }
    }
}
