package cellar.client.jcache;

import cellar.client.CacheException;
import cellar.client.config.CacheConfiguration;
import cellar.client.config.CacheRegistry;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.locks.ReentrantLock;
import javax.cache.CacheManager;
import javax.cache.configuration.OptionalFeature;
import javax.cache.spi.CachingProvider;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/**
 * JCache over {@link CacheRegistry}.
 *
 * <p>A manager's URI names a properties file for {@link CacheConfiguration}. Without a URI, the
 * manager's own properties contain the same keys. Each JCache cache is the cache of that name in
 * the configuration.
 */
@NullMarked
public final class CellarCachingProvider implements CachingProvider {
    private static final URI DEFAULT = URI.create("cellar:default");

    private final Map<URI, CellarCacheManager> managers = new HashMap<>();
    private final ReentrantLock lock = new ReentrantLock();

    /** Called by the service loader. */
    public CellarCachingProvider() {}

    @Override
    public CacheManager getCacheManager(
            @Nullable URI uri, @Nullable ClassLoader loader, @Nullable Properties properties) {
        URI wanted = uri == null ? DEFAULT : uri;
        lock.lock();
        try {
            CellarCacheManager known = managers.get(wanted);
            if (known != null && !known.isClosed()) {
                return known;
            }
            Properties given = properties == null ? new Properties() : properties;
            CellarCacheManager made =
                    new CellarCacheManager(
                            this,
                            wanted,
                            loader == null ? getDefaultClassLoader() : loader,
                            given,
                            CacheRegistry.of(configuration(wanted, given)));
            managers.put(wanted, made);
            return made;
        } finally {
            lock.unlock();
        }
    }

    private static CacheConfiguration configuration(URI uri, Properties properties) {
        if (uri.equals(DEFAULT)) {
            return CacheConfiguration.properties(properties);
        }
        try (InputStream file = uri.toURL().openStream()) {
            Properties read = new Properties();
            read.load(file);
            return CacheConfiguration.properties(read);
        } catch (IOException | IllegalArgumentException | CacheException e) {
            throw new javax.cache.CacheException("the file " + uri + " cannot be used", e);
        }
    }

    @Override
    public ClassLoader getDefaultClassLoader() {
        return CellarCachingProvider.class.getClassLoader();
    }

    @Override
    public URI getDefaultURI() {
        return DEFAULT;
    }

    @Override
    public Properties getDefaultProperties() {
        return new Properties();
    }

    @Override
    public CacheManager getCacheManager(URI uri, ClassLoader loader) {
        return getCacheManager(uri, loader, getDefaultProperties());
    }

    @Override
    public CacheManager getCacheManager() {
        return getCacheManager(getDefaultURI(), getDefaultClassLoader(), null);
    }

    @Override
    public void close() {
        lock.lock();
        try {
            managers.values().forEach(CellarCacheManager::close);
            managers.clear();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void close(ClassLoader loader) {
        close();
    }

    @Override
    public void close(URI uri, ClassLoader loader) {
        lock.lock();
        try {
            CellarCacheManager manager = managers.remove(uri);
            if (manager != null) {
                manager.close();
            }
        } finally {
            lock.unlock();
        }
    }

    @Override
    public boolean isSupported(OptionalFeature feature) {
        return false;
    }
}
