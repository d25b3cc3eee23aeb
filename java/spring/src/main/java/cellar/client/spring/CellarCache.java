package cellar.client.spring;

import cellar.client.CacheClient;
import cellar.client.CacheException;
import cellar.client.Listing;
import cellar.client.LoadOptions;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Base64;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;
import org.springframework.cache.Cache;
import org.springframework.cache.support.SimpleValueWrapper;

/** One of Spring's caches. Null values are not stored: they are loaded again each time. */
@NullMarked
final class CellarCache implements Cache {
    private static final int KEY_BYTES_MAX = 250;

    private final String name;
    private final CacheClient<Object> client;
    private final Duration ttl;
    private final @Nullable Duration localTtl;

    CellarCache(
            String name, CacheClient<Object> client, Duration ttl, @Nullable Duration localTtl) {
        this.name = name;
        this.client = client;
        this.ttl = ttl;
        this.localTtl = localTtl;
    }

    @Override
    public String getName() {
        return name;
    }

    @Override
    public Object getNativeCache() {
        return client;
    }

    private String key(Object key) {
        String plain = prefix() + key;
        byte[] bytes = plain.getBytes(StandardCharsets.UTF_8);
        boolean fits = bytes.length <= KEY_BYTES_MAX;
        for (byte b : bytes) {
            fits &= b < 0 || b > ' ' && b != 127;
        }
        return fits ? plain : prefix() + "#" + digest(bytes);
    }

    private String prefix() {
        return name + "::";
    }

    private static String digest(byte[] bytes) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
            return Base64.getUrlEncoder().withoutPadding().encodeToString(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    private @Nullable Object lookup(Object key) {
        return localTtl == null
                ? client.blocking().get(key(key))
                : client.blocking().get(key(key), localTtl);
    }

    @Override
    public @Nullable ValueWrapper get(Object key) {
        Object value = lookup(key);
        return value == null ? null : new SimpleValueWrapper(value);
    }

    @Override
    public <T> @Nullable T get(Object key, @Nullable Class<T> type) {
        Object value = lookup(key);
        if (value != null && type != null && !type.isInstance(value)) {
            throw new IllegalStateException("not a " + type.getName() + " in " + name);
        }
        @SuppressWarnings("unchecked")
        T found = (T) value;
        return found;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> @Nullable T get(Object key, Callable<T> loader) {
        Object local = localTtl == null ? null : lookup(key);
        if (local != null) {
            return (T) local;
        }
        try {
            return (T)
                    client.blocking()
                            .getOrLoad(key(key), LoadOptions.ttl(ttl), () -> call(key, loader));
        } catch (CacheException.Loading e) {
            if (e.getCause() instanceof ValueRetrievalException failure) {
                throw failure;
            }
            throw e;
        }
    }

    private static <T> @Nullable T call(Object key, Callable<T> loader) {
        try {
            return loader.call();
        } catch (Exception e) {
            throw new ValueRetrievalException(key, loader, e);
        }
    }

    @Override
    public CompletableFuture<?> retrieve(Object key) {
        return client.get(key(key)).toCompletableFuture();
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> CompletableFuture<T> retrieve(Object key, Supplier<CompletableFuture<T>> loader) {
        return (CompletableFuture<T>)
                client.getOrLoad(key(key), LoadOptions.ttl(ttl), loader::get).toCompletableFuture();
    }

    @Override
    public void put(Object key, @Nullable Object value) {
        if (value == null) {
            client.blocking().delete(key(key));
        } else {
            client.blocking().set(key(key), value, ttl);
        }
    }

    @Override
    public @Nullable ValueWrapper putIfAbsent(Object key, @Nullable Object value) {
        if (value == null || client.blocking().add(key(key), value, ttl)) {
            return null;
        }
        return get(key);
    }

    @Override
    public void evict(Object key) {
        client.blocking().delete(key(key));
    }

    @Override
    public boolean evictIfPresent(Object key) {
        return client.blocking().delete(key(key));
    }

    /** Lists the keys of all nodes and deletes this cache's; other caches stay. */
    @Override
    public void clear() {
        for (String key : client.blocking().keys(Listing.FAST)) {
            if (key.startsWith(prefix())) {
                client.blocking().delete(key);
            }
        }
    }
}
