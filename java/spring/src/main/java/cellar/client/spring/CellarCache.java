package cellar.client.spring;

import cellar.client.CacheClient;
import cellar.client.CacheException;
import cellar.client.LoadOptions;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Base64;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;
import org.springframework.cache.support.AbstractValueAdaptingCache;

/** A Spring cache. */
@NullMarked
final class CellarCache extends AbstractValueAdaptingCache {
    private static final int KEY_BYTES_MAX = 250;

    private final String name;
    private final CacheClient<Object> client;
    private final Generation generation;
    private final Duration ttl;
    private final @Nullable Duration localTtl;
    private final LoadOptions loading;

    CellarCache(
            String name,
            CacheClient<Object> client,
            Generation generation,
            Duration ttl,
            @Nullable Duration localTtl,
            boolean nulls) {
        super(nulls);
        this.name = name;
        this.client = client;
        this.generation = generation;
        this.ttl = ttl;
        this.localTtl = localTtl;
        LoadOptions options = LoadOptions.ttl(ttl);
        this.loading = localTtl == null ? options : options.localTtl(localTtl);
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
        return key(generation.now(), key);
    }

    private String key(String word, Object key) {
        return fitting(name + "::" + word + ":" + key);
    }

    /** Returns {@code plain}, or its digest if it is not a valid memcached key. */
    static String fitting(String plain) {
        byte[] bytes = plain.getBytes(StandardCharsets.UTF_8);
        boolean fits = bytes.length <= KEY_BYTES_MAX;
        for (byte b : bytes) {
            fits &= b < 0 || b > ' ' && b != 127;
        }
        return fits ? plain : "#" + digest(bytes);
    }

    private static String digest(byte[] bytes) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
            return Base64.getUrlEncoder().withoutPadding().encodeToString(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    @Override
    protected @Nullable Object lookup(Object key) {
        return localTtl == null
                ? client.blocking().get(key(key))
                : client.blocking().get(key(key), localTtl);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> @Nullable T get(Object key, Callable<T> loader) {
        try {
            return (T)
                    fromStoreValue(
                            client.blocking()
                                    .getOrLoad(key(key), loading, () -> call(key, loader)));
        } catch (CacheException.Loading e) {
            if (e.getCause() instanceof ValueRetrievalException failure) {
                throw failure;
            }
            throw e;
        }
    }

    private @Nullable Object call(Object key, Callable<?> loader) {
        try {
            return storable(loader.call());
        } catch (Exception e) {
            throw new ValueRetrievalException(key, loader, e);
        }
    }

    /** Returns the object to store for a value; null if it is not stored. */
    private @Nullable Object storable(@Nullable Object value) {
        return value == null && !isAllowNullValues() ? null : toStoreValue(value);
    }

    @Override
    public CompletableFuture<?> retrieve(Object key) {
        return generation
                .later()
                .thenCompose(word -> read(key(word, key)))
                .thenApply(
                        value ->
                                isAllowNullValues()
                                        ? toValueWrapper(value)
                                        : fromStoreValue(value));
    }

    private CompletionStage<@Nullable Object> read(String key) {
        return localTtl == null ? client.get(key) : client.get(key, localTtl);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> CompletableFuture<T> retrieve(Object key, Supplier<CompletableFuture<T>> loader) {
        return (CompletableFuture<T>)
                generation
                        .later()
                        .thenCompose(
                                word ->
                                        client.getOrLoad(
                                                key(word, key),
                                                loading,
                                                () -> loader.get().thenApply(this::storable)))
                        .thenApply(this::fromStoreValue);
    }

    @Override
    public void put(Object key, @Nullable Object value) {
        Object stored = storable(value);
        if (stored == null) {
            evict(key);
        } else {
            client.blocking().set(key(key), stored, ttl);
        }
    }

    @Override
    public @Nullable ValueWrapper putIfAbsent(Object key, @Nullable Object value) {
        Object stored = storable(value);
        String text = key(key);
        if (stored == null || client.blocking().add(text, stored, ttl)) {
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

    /** Makes all items unreachable; they leave the servers when their TTL ends. */
    @Override
    public void clear() {
        generation.end();
    }
}
