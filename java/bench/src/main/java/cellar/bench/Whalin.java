package cellar.bench;

import java.io.File;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Date;
import java.util.List;

/**
 * whalin's client: 3.0.2, or 2.0.1 from a folder, which memcache-client-forjava is based on.
 *
 * <p>Both have the same methods in different packages, and 2.0.1 was not found as an artifact. So
 * they are called by reflection.
 */
final class Whalin {
    /** Class path of 2.0.1 and its dependencies; empty if missing. */
    private static final String OLD = System.getProperty("bench.old", "");

    private static ClassLoader loader = Whalin.class.getClassLoader();

    private Whalin() {}

    /** Returns the version that {@link #old} uses. */
    static String oldVersion() {
        return OLD.isEmpty() ? "3.0.2" : "2.0.1";
    }

    /** Connects the old version; {@code check} makes it check a connection before each use. */
    static Peer old(List<Integer> ports, boolean check) throws Exception {
        if (!OLD.isEmpty() && loader == Whalin.class.getClassLoader()) {
            File log4j = new File(OLD, "log4j.jar");
            loader = new URLClassLoader(new URL[] {url(new File(OLD)), url(log4j)}, loader);
            quieten();
        }
        return open(OLD.isEmpty() ? "com.whalin" : "com.danga", ports, check);
    }

    private static URL url(File file) throws Exception {
        return file.toURI().toURL();
    }

    /** Without a configuration Log4j logs everything. */
    private static void quieten() throws Exception {
        Class<?> level = loader.loadClass("org.apache.log4j.Level");
        Object root =
                loader.loadClass("org.apache.log4j.Logger").getMethod("getRootLogger").invoke(null);
        root.getClass().getMethod("setLevel", level).invoke(root, level.getField("OFF").get(null));
    }

    /** Connects the client whose classes are below the package {@code home}. */
    static Peer open(String home, List<Integer> ports, boolean check) throws Exception {
        Class<?> pools = loader.loadClass(home + ".MemCached.SockIOPool");
        String name = "pool-" + System.nanoTime();
        Object pool = pools.getMethod("getInstance", String.class).invoke(null, name);
        String[] servers = ports.stream().map(port -> "127.0.0.1:" + port).toArray(String[]::new);
        call(pool, "setServers", (Object) servers);
        call(pool, "setInitConn", 10);
        call(pool, "setMinConn", 10);
        call(pool, "setMaxConn", 128);
        call(pool, "setNagle", false);
        call(pool, "setAliveCheck", check);
        call(pool, "setHashingAlg", pools.getField("CONSISTENT_HASH").get(null));
        call(pool, "initialize");
        Class<?> clients = loader.loadClass(home + ".MemCached.MemCachedClient");
        Object client = clients.getConstructor(String.class).newInstance(name);
        Method get = clients.getMethod("get", String.class);
        Method set = clients.getMethod("set", String.class, Object.class, Date.class);
        return new Peer(
                key -> get.invoke(client, key),
                (key, value) -> {
                    if (!(Boolean) set.invoke(client, key, value, new Date(Peer.TTL_S * 1000L))) {
                        throw new IllegalStateException("not stored");
                    }
                },
                () -> call(pool, "shutDown"));
    }

    /** Calls the only method with this name and number of parameters. */
    private static void call(Object on, String name, Object... words) {
        try {
            for (Method method : on.getClass().getMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == words.length) {
                    method.invoke(on, words);
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(name, e);
        }
    }
}
