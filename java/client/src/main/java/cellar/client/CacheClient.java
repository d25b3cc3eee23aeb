package cellar.client;

import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A cache on one or more servers with the memcached protocol or the Redis protocol.
 *
 * <p>Every method returns at once. The answer completes the stage on a thread of the client, which
 * must not block; use the {@code ...Async} methods of the stage for long work. A stage fails with a
 * {@link CacheException}, at the time-out at the latest. A wrong argument throws {@link
 * IllegalArgumentException} at once. A key is 1 to 250 bytes of UTF-8 without spaces and control
 * characters. A TTL is {@link Ttl#NEVER} or more than zero, and is rounded up to whole seconds.
 *
 * <p>Safe for use by many threads. Arguments and results are never null unless the method says so.
 *
 * @param <V> type of the values
 */
public interface CacheClient<V> extends AutoCloseable {
    /** Returns a builder of a client. */
    static CacheClientBuilder builder() {
        return new CacheClientBuilder();
    }

    /**
     * Reads a value; null is a miss. Sends a request to the server, unless {@link
     * LocalCacheOptions#localTtl} enables the local cache for this method.
     */
    CompletionStage<@Nullable V> get(String key);

    /**
     * Reads a value through the local cache; null is a miss.
     *
     * <p>Returns a local copy that the server sent or confirmed at most {@code localTtl} ago. With
     * tracking, a copy is also dropped as soon as any client changes the item. {@link
     * Duration#ZERO} always reads from the server.
     *
     * @throws IllegalStateException if the client was built without a local cache
     */
    CompletionStage<@Nullable V> get(String key, Duration localTtl);

    /** Reads a value with its version, for {@link #cas}; null is a miss. */
    CompletionStage<@Nullable Versioned<V>> getVersioned(String key);

    /**
     * Reads many values, with one request to each node, sent to all nodes at the same time. The
     * result has no entry for a miss. Uses the local cache if {@link #get(String)} does.
     */
    CompletionStage<Map<String, V>> getMany(Collection<String> keys);

    /** Stores a value, whether or not the item exists. */
    CompletionStage<@Nullable Void> set(String key, V value, Duration ttl);

    /** Stores a value if the item does not exist; false if it exists. */
    CompletionStage<Boolean> add(String key, V value, Duration ttl);

    /** Stores a value if the item exists; false if it does not. */
    CompletionStage<Boolean> replace(String key, V value, Duration ttl);

    /** Appends the bytes of {@code value} to the stored ones; false if there is no item. */
    CompletionStage<Boolean> append(String key, V value);

    /** Prepends the bytes of {@code value} to the stored ones; false if there is no item. */
    CompletionStage<Boolean> prepend(String key, V value);

    /** Stores a value if the item still has {@code version}. */
    CompletionStage<CasOutcome> cas(String key, V value, long version, Duration ttl);

    /** Deletes an item; false if there was none. */
    CompletionStage<Boolean> delete(String key);

    /**
     * Stores many values, whether or not the items exist, on all nodes at the same time. Not
     * atomic: if the stage fails, the client has tried to store all values, and some may be stored.
     */
    CompletionStage<@Nullable Void> setMany(Map<String, V> values, Duration ttl);

    /** Deletes many items in the same way; returns how many of them existed. */
    CompletionStage<Integer> deleteMany(Collection<String> keys);

    /** Sets the TTL of an item; false if there is none. */
    CompletionStage<Boolean> touch(String key, Duration ttl);

    /**
     * Reads a value, or loads and stores it.
     *
     * <p>If several callers in this process miss, one calls the loader and the others wait for its
     * value. On a server with leases this includes callers in other processes. If the item is stale
     * after {@link #invalidate} or within {@link LoadOptions#early} of its expiry, the others get
     * the old value meanwhile. If the loader returns null, nothing is stored and all waiting
     * callers get null. With {@link LoadOptions#negativeTtl} the loader is then not called again
     * for this time; a value stored meanwhile by any client is still returned. If the loader fails,
     * the stage fails with {@link CacheException.Loading} and the next caller tries again.
     *
     * <p>With {@link LoadOptions#localTtl} a local copy is returned as by {@link #get(String,
     * Duration)}.
     *
     * @param loader called at most once by this call; may return at once and complete later
     */
    CompletionStage<@Nullable V> getOrLoad(
            String key,
            LoadOptions options,
            Supplier<? extends CompletionStage<? extends @Nullable V>> loader);

    /**
     * Marks an item as stale. For at most {@code stale}, {@code getOrLoad} returns the old value
     * while one caller loads a new one. A server without leases deletes the item. False if there
     * was none.
     */
    CompletionStage<Boolean> invalidate(String key, Duration stale);

    /** Returns the keys of all nodes that can be reached now. */
    CompletionStage<Set<String>> keys(Listing listing);

    /** Deletes all items of all nodes. */
    CompletionStage<@Nullable Void> flushAll();

    /** Returns the counters of this cache. */
    Counters counters();

    /** Returns the blocking interface of the same cache. */
    BlockingCacheClient<V> blocking();

    /** Returns the codec of the values. */
    Codec<V> codec();

    /**
     * Returns a view with another codec on the same connections and the same local cache. Closing
     * either closes both. A local copy is returned only to the view that read it. If two views read
     * the same item in turn, each read is a request to the server.
     */
    <W> CacheClient<W> withCodec(Codec<W> codec);

    /**
     * Closes all connections, at once and without waiting. Unanswered requests fail with {@link
     * CacheException.Closed}. Changes queued for replication are sent first if their node can be
     * reached. Closing twice has no effect.
     */
    @Override
    void close();
}
