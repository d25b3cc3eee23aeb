package cellar.client.config;

import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.CacheException;
import cellar.client.Codec;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * The caches of a configuration. Each is created on its first use. Safe for use by many threads.
 */
public final class CacheRegistry implements AutoCloseable {
    private final CacheConfiguration configuration;
    private final Consumer<CacheClientBuilder> more;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<String, CacheClient<Object>> clients = new HashMap<>();
    private boolean closed;

    private CacheRegistry(CacheConfiguration configuration, Consumer<CacheClientBuilder> more) {
        this.configuration = configuration;
        this.more = more;
    }

    /** Returns a registry of the caches of {@code configuration}. */
    public static CacheRegistry of(CacheConfiguration configuration) {
        return new CacheRegistry(configuration, builder -> {});
    }

    /**
     * Returns a registry of these caches; {@code more} sets what no file can, for example metrics.
     */
    public static CacheRegistry of(
            CacheConfiguration configuration, Consumer<CacheClientBuilder> more) {
        return new CacheRegistry(configuration, more);
    }

    /** Returns the names of all caches. */
    public List<String> names() {
        return configuration.names();
    }

    /**
     * Returns the cache of this name, the same object each time.
     *
     * @throws CacheException.Configuration if there is none
     * @throws CacheException.Closed after {@link #close}
     */
    public CacheClient<Object> cache(String name) {
        CacheSettings settings = configuration.cache(name);
        lock.lock();
        try {
            if (closed) {
                throw new CacheException.Closed();
            }
            return clients.computeIfAbsent(name, same -> build(settings));
        } finally {
            lock.unlock();
        }
    }

    /** Returns a view of the cache of this name with another codec. */
    public <V> CacheClient<V> cache(String name, Codec<V> codec) {
        return cache(name).withCodec(codec);
    }

    private CacheClient<Object> build(CacheSettings settings) {
        CacheClientBuilder builder = settings.builder();
        more.accept(builder);
        return builder.build(settings.codec());
    }

    /** Closes all caches. */
    @Override
    public void close() {
        lock.lock();
        try {
            closed = true;
            clients.values().forEach(CacheClient::close);
            clients.clear();
        } finally {
            lock.unlock();
        }
    }
}
