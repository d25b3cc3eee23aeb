package cellar.client;

import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A {@link CacheClient} whose methods wait for the answer and throw the {@link CacheException}.
 *
 * <p>The calling thread writes and reads the socket itself. Concurrent callers share one write and
 * one read. A waiting call holds no monitor, so a virtual thread does not pin its carrier. An
 * interrupted caller gets {@link CacheException.Loading} with the interrupt flag set. Arguments,
 * results and null are as in {@link CacheClient}.
 *
 * @param <V> type of the values
 */
public interface BlockingCacheClient<V> extends AutoCloseable {
    /** See {@link CacheClient#get(String)}. */
    @Nullable V get(String key);

    /** See {@link CacheClient#get(String, Duration)}. */
    @Nullable V get(String key, Duration localTtl);

    /** See {@link CacheClient#getVersioned}. */
    @Nullable Versioned<V> getVersioned(String key);

    /** See {@link CacheClient#getMany}. */
    Map<String, V> getMany(Collection<String> keys);

    /** See {@link CacheClient#set}. */
    void set(String key, V value, Duration ttl);

    /** See {@link CacheClient#add}. */
    boolean add(String key, V value, Duration ttl);

    /** See {@link CacheClient#replace}. */
    boolean replace(String key, V value, Duration ttl);

    /** See {@link CacheClient#append}. */
    boolean append(String key, V value);

    /** See {@link CacheClient#prepend}. */
    boolean prepend(String key, V value);

    /** See {@link CacheClient#cas}. */
    CasOutcome cas(String key, V value, long version, Duration ttl);

    /** See {@link CacheClient#delete}. */
    boolean delete(String key);

    /** See {@link CacheClient#setMany}. */
    void setMany(Map<String, V> values, Duration ttl);

    /** See {@link CacheClient#deleteMany}. */
    int deleteMany(Collection<String> keys);

    /** See {@link CacheClient#touch}. */
    boolean touch(String key, Duration ttl);

    /** See {@link CacheClient#getOrLoad}; the loader runs in the calling thread. */
    @Nullable V getOrLoad(String key, LoadOptions options, Supplier<? extends @Nullable V> loader);

    /** See {@link CacheClient#invalidate}. */
    boolean invalidate(String key, Duration stale);

    /** See {@link CacheClient#keys}. */
    Set<String> keys(Listing listing);

    /** See {@link CacheClient#flushAll}. */
    void flushAll();

    /** See {@link Counters#store}. */
    void storeCounter(String key, long number, Duration ttl);

    /** See {@link Counters#get}. */
    @Nullable Long getCounter(String key);

    /** See {@link Counters#increment}. */
    @Nullable Long increment(String key, long by);

    /** See {@link Counters#decrement}. */
    @Nullable Long decrement(String key, long by);

    /** See {@link Counters#addOrIncrement}. */
    long addOrIncrement(String key, long by, Duration ttl);

    /** See {@link Counters#addOrDecrement}. */
    long addOrDecrement(String key, long by, long initial, Duration ttl);

    /** Returns the asynchronous interface of the same cache. */
    CacheClient<V> async();

    /** See {@link CacheClient#close}. */
    @Override
    void close();
}
