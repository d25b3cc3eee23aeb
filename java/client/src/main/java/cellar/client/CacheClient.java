package cellar.client;

import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A cache on one or more servers that speak memcached's protocol.
 *
 * <p>Every method returns at once; the answer completes the stage, on a thread of the client that
 * must not be blocked (use the {@code ...Async} methods of the stage for long work). A stage fails
 * with a {@link CacheException}, never later than the time-out says. Wrong arguments throw {@link
 * IllegalArgumentException} at once: a key is 1 to 250 bytes of UTF-8 without spaces and control
 * characters; a TTL is {@link Ttl#NEVER} or more than zero and is rounded up to whole seconds.
 *
 * <p>Safe for use by many threads. Nothing is null but where it says so.
 *
 * @param <V> type of the values
 */
public interface CacheClient<V> extends AutoCloseable {
    /** Starts to describe a client. */
    static CacheClientBuilder builder() {
        return new CacheClientBuilder();
    }

    /**
     * Reads a value; null is a miss. Asks the server, unless the {@linkplain
     * LocalCacheOptions#localTtl local cache} is for such calls too.
     */
    CompletionStage<@Nullable V> get(String key);

    /**
     * Reads a value through the local cache.
     *
     * <p>A local copy is served if it was read or confirmed no longer than {@code localTtl} ago.
     * With a server that tells of changes, it also goes as soon as anybody changes the item. Null
     * is a miss. {@link Duration#ZERO} asks the server.
     *
     * @throws IllegalStateException if the client was built without a local cache
     */
    CompletionStage<@Nullable V> get(String key, Duration localTtl);

    /** Reads a value with its version, for {@link #cas}; null is a miss. */
    CompletionStage<@Nullable Versioned<V>> getVersioned(String key);

    /**
     * Reads many values, each node asked once and all at the same time; misses are left out. Goes
     * through the local cache where {@link #get(String)} does.
     */
    CompletionStage<Map<String, V>> getMany(Collection<String> keys);

    /** Stores a value, whatever was there. */
    CompletionStage<@Nullable Void> set(String key, V value, Duration ttl);

    /** Stores a value if there is none; false if there is one. */
    CompletionStage<Boolean> add(String key, V value, Duration ttl);

    /** Stores a value if there is one; false if there is none. */
    CompletionStage<Boolean> replace(String key, V value, Duration ttl);

    /** Puts the bytes of {@code value} behind those stored; false if there are none. */
    CompletionStage<Boolean> append(String key, V value);

    /** Puts the bytes of {@code value} before those stored; false if there are none. */
    CompletionStage<Boolean> prepend(String key, V value);

    /** Stores a value if the item still has {@code version}. */
    CompletionStage<CasOutcome> cas(String key, V value, long version, Duration ttl);

    /** Removes an item; false if there was none. */
    CompletionStage<Boolean> delete(String key);

    /**
     * Stores many values, whatever was there; all nodes are sent to at the same time. Not one step:
     * if the stage fails, some may be stored, and all have been tried.
     */
    CompletionStage<@Nullable Void> setMany(Map<String, V> values, Duration ttl);

    /** Removes many items in the same way; tells how many of them there were. */
    CompletionStage<Integer> deleteMany(Collection<String> keys);

    /** Gives an item another TTL; false if there is none. */
    CompletionStage<Boolean> touch(String key, Duration ttl);

    /**
     * Reads a value, or loads and stores it.
     *
     * <p>Of all callers that miss, in this process and, with a server that has leases, anywhere,
     * one loads; the others wait for its value. Where the item was {@linkplain #invalidate
     * invalidated} or is about to end, they get the old value meanwhile. A loader that gives null
     * stores nothing; all who wait get null too, and with {@link LoadOptions#negativeTtl} nobody
     * asks again for that long, unless somebody stores a value. If the loader fails, the stage
     * fails with {@link CacheException.Loading} and the next caller tries again.
     *
     * <p>With {@link LoadOptions#localTtl} a local copy is served as by {@link #get(String,
     * Duration)}.
     *
     * @param loader called at most once by this call; may return at once and complete later
     */
    CompletionStage<@Nullable V> getOrLoad(
            String key,
            LoadOptions options,
            Supplier<? extends CompletionStage<? extends @Nullable V>> loader);

    /**
     * Marks an item as stale: {@code getOrLoad} serves it for {@code stale} at most while one
     * caller loads anew. A server without leases deletes it. False if there was none.
     */
    CompletionStage<Boolean> invalidate(String key, Duration stale);

    /** The keys of all nodes, of this process's knowledge at this moment. */
    CompletionStage<Set<String>> keys(Listing listing);

    /** Makes every item of every node a miss. */
    CompletionStage<@Nullable Void> flushAll();

    /** The numbers in this cache. */
    Counters counters();

    /** The same cache for callers that wait. */
    BlockingCacheClient<V> blocking();

    /** How values are turned into bytes. */
    Codec<V> codec();

    /**
     * The same connections and the same local cache with values of another form. Closing either
     * closes both. A local copy is served in the form it was read in: who reads an item in two
     * forms by turns asks the server each time.
     */
    <W> CacheClient<W> withCodec(Codec<W> codec);

    /**
     * Ends all connections, at once and without waiting; requests that are under way fail with
     * {@link CacheException.Closed}. Writes that wait to be replicated are sent first if their node
     * can be reached. Closing twice does nothing.
     */
    @Override
    void close();
}
