package cellar.bench;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.List;

/** Loads {@link SpyPeer} once more, against ElastiCache's classes. */
final class Apart extends URLClassLoader {
    private Apart(URL[] urls) {
        super(urls, Apart.class.getClassLoader());
    }

    static Peer elasticache(List<Integer> ports, boolean binary) throws Exception {
        String folder = System.getProperty("bench.apart", "target/apart");
        URL jar = new File(folder, "elasticache.jar").toURI().toURL();
        URL own = SpyPeer.class.getProtectionDomain().getCodeSource().getLocation();
        @SuppressWarnings("resource")
        Apart apart = new Apart(new URL[] {jar, own});
        return (Peer)
                apart.loadClass("cellar.bench.SpyPeer")
                        .getConstructor(List.class, Boolean.class)
                        .newInstance(ports, binary);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        boolean own = name.startsWith("net.spy.") || name.startsWith("cellar.bench.SpyPeer");
        synchronized (getClassLoadingLock(name)) {
            if (own && findLoadedClass(name) == null) {
                return findClass(name);
            }
            return super.loadClass(name, resolve);
        }
    }
}
