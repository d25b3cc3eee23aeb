package cellar.client.jcache;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheClient;
import cellar.client.CacheException;
import cellar.client.CasOutcome;
import cellar.client.Listing;
import cellar.client.LoadOptions;
import cellar.client.Ttl;
import cellar.client.Versioned;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.function.Supplier;
import javax.cache.Cache;
import javax.cache.CacheManager;
import javax.cache.configuration.CacheEntryListenerConfiguration;
import javax.cache.configuration.CompleteConfiguration;
import javax.cache.configuration.Configuration;
import javax.cache.configuration.MutableConfiguration;
import javax.cache.expiry.ExpiryPolicy;
import javax.cache.integration.CacheLoaderException;
import javax.cache.integration.CacheWriterException;
import javax.cache.integration.CompletionListener;
import javax.cache.processor.EntryProcessor;
import javax.cache.processor.EntryProcessorException;
import javax.cache.processor.EntryProcessorResult;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/**
 * A JCache cache over one cache of a configuration.
 *
 * <p>Keys are text, or their text is a valid memcached key. Values are stored by value, with the
 * cache's codec. Atomic operations compare versions and are repeated if another client was faster.
 * The expiry policy applies to creation and update; an access does not change the expiry. If
 * several callers miss a key, in this process or in others, one calls the loader.
 *
 * <p>An unconditional change goes to the writer, then to the cache. A conditional one goes to the
 * writer after the change; if the writer fails, the item is removed from the cache. While a
 * listener is registered, each change first reads the old value, and compares versions.
 */
@NullMarked
final class CellarCache<K, V> implements Cache<K, V> {
    private static final int ATTEMPTS_MAX = 1000;

    private final CellarCacheManager manager;
    private final String name;
    private final BlockingCacheClient<Object> client;
    private final MutableConfiguration<K, V> configuration;
    private final ExpiryPolicy expiry;
    private final Through<K, V> through;
    private final Listeners<K, V> listeners = new Listeners<>(this);
    private final Statistics statistics = new Statistics();
    private volatile boolean closed;

    CellarCache(
            CellarCacheManager manager,
            String name,
            CacheClient<Object> client,
            Configuration<K, V> given) {
        this.manager = manager;
        this.name = name;
        this.client = client.blocking();
        if (given instanceof CompleteConfiguration<K, V> complete) {
            configuration = new MutableConfiguration<>(complete);
        } else {
            configuration = new MutableConfiguration<>();
            configuration.setTypes(given.getKeyType(), given.getValueType());
            configuration.setStoreByValue(given.isStoreByValue());
        }
        requireSupported();
        through = new Through<>(configuration);
        expiry = configuration.getExpiryPolicyFactory().create();
        configuration.getCacheEntryListenerConfigurations().forEach(listeners::add);
    }

    private void requireSupported() {
        if (!configuration.isStoreByValue()) {
            throw new UnsupportedOperationException("store by reference is not supported");
        }
    }

    /** Registers the enabled beans; called when the manager contains the cache. */
    void show() {
        statistics(configuration.isStatisticsEnabled());
        management(configuration.isManagementEnabled());
    }

    void statistics(boolean wanted) {
        configuration.setStatisticsEnabled(wanted);
        statistics.turn(wanted);
        Beans.show(this, Beans.Kind.STATISTICS, statistics, wanted);
    }

    void management(boolean wanted) {
        configuration.setManagementEnabled(wanted);
        Object bean = new Beans.Configured(configuration);
        Beans.show(this, Beans.Kind.CONFIGURATION, bean, wanted);
    }

    Configuration<K, V> types() {
        return configuration;
    }

    private String text(K key) {
        requireOpen();
        return String.valueOf(Objects.requireNonNull(key));
    }

    private void requireOpen() {
        if (closed) {
            throw new IllegalStateException("the cache is closed");
        }
    }

    @SuppressWarnings("unchecked")
    private @Nullable V value(@Nullable Object stored) {
        return (V) stored;
    }

    /** Returns null if the policy expires the item at once. */
    private static @Nullable Duration ttl(javax.cache.expiry.@Nullable Duration policy) {
        if (policy == null || policy.isEternal()) {
            return Ttl.NEVER;
        }
        if (policy.isZero()) {
            return null;
        }
        return Duration.ofMillis(policy.getTimeUnit().toMillis(policy.getDurationAmount()));
    }

    private @Nullable Duration created() {
        return ttl(expiry.getExpiryForCreation());
    }

    private @Nullable Duration updated() {
        return ttl(expiry.getExpiryForUpdate());
    }

    /** The step that {@link #change} takes, with its answer. */
    private record Decision<V, R extends @Nullable Object>(Step step, @Nullable V value, R answer) {
        static <V, R extends @Nullable Object> Decision<V, R> keep(R answer) {
            return new Decision<>(Step.KEEP, null, answer);
        }

        static <V, R extends @Nullable Object> Decision<V, R> store(V value, R answer) {
            return new Decision<>(Step.STORE, value, answer);
        }

        static <V, R extends @Nullable Object> Decision<V, R> fill(V value, R answer) {
            return new Decision<>(Step.FILL, value, answer);
        }

        static <V, R extends @Nullable Object> Decision<V, R> remove(R answer) {
            return new Decision<>(Step.REMOVE, null, answer);
        }

        static <V, R extends @Nullable Object> Decision<V, R> drop(R answer) {
            return new Decision<>(Step.DROP, null, answer);
        }

        boolean removes() {
            return step == Step.REMOVE || step == Step.DROP;
        }

        boolean stores() {
            return step == Step.STORE || step == Step.FILL;
        }
    }

    private enum Step {
        KEEP,
        STORE,
        /** Stores a value that came from the loader, so it is not written to the writer. */
        FILL,
        REMOVE,
        /** Removes an item that the external store does not have. */
        DROP
    }

    /** Reads an item, decides, and changes it only if no client has changed it meanwhile. */
    private <R extends @Nullable Object> R change(
            K key, Function<@Nullable V, Decision<V, R>> decide) {
        String text = text(key);
        long begin_ns = statistics.begin();
        for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
            Versioned<Object> now = client.getVersioned(text);
            V old = now == null ? null : value(now.value());
            Decision<V, R> decision = decide.apply(old);
            if (carriedOut(text, now, decision)) {
                count(old, decision, begin_ns);
                writeThrough(key, decision);
                tell(key, old, decision);
                return decision.answer();
            }
        }
        throw new javax.cache.CacheException("other clients kept changing " + text);
    }

    /** The callers of FILL and DROP count these steps themselves. */
    private void count(@Nullable V old, Decision<V, ?> decision, long begin_ns) {
        if (decision.step() == Step.FILL || decision.step() == Step.DROP) {
            return;
        }
        statistics.read(1, old == null ? 0 : 1, begin_ns);
        if (decision.stores()) {
            statistics.stored(1, begin_ns);
        } else if (decision.removes() && old != null) {
            statistics.removed(1, begin_ns);
        }
    }

    private void tell(K key, @Nullable V old, Decision<V, ?> decision) {
        V value = decision.value();
        if (decision.stores() && value != null) {
            listeners.stored(key, old, value);
        } else if (decision.removes() && old != null) {
            listeners.removed(key, old);
        }
    }

    private <R extends @Nullable Object> void writeThrough(K key, Decision<V, R> decision) {
        V value = decision.value();
        try {
            if (decision.step() == Step.STORE && value != null) {
                through.write(key, value);
            } else if (decision.step() == Step.REMOVE) {
                through.delete(key);
            }
        } catch (CacheWriterException e) {
            client.delete(text(key));
            throw e;
        }
    }

    private <R extends @Nullable Object> boolean carriedOut(
            String text, @Nullable Versioned<Object> now, Decision<V, R> decision) {
        Duration ttl = now == null ? created() : updated();
        boolean removes = decision.removes() || decision.stores() && ttl == null;
        if (removes) {
            // A placeholder is stored under the version read, so that no other change is removed.
            return now == null
                    || client.cas(text, now.value(), now.version(), Duration.ofSeconds(1))
                                    == CasOutcome.STORED
                            && removed(text);
        }
        V value = decision.value();
        if (!decision.stores() || value == null || ttl == null) {
            return true;
        }
        if (now == null) {
            return client.add(text, value, ttl);
        }
        return client.cas(text, value, now.version(), ttl) == CasOutcome.STORED;
    }

    private boolean removed(String text) {
        client.delete(text);
        return true;
    }

    @Override
    public @Nullable V get(K key) {
        long begin_ns = statistics.begin();
        AtomicReference<@Nullable V> loaded = new AtomicReference<>();
        V value = through.reads() ? getOrLoad(key, loaded) : cached(key);
        statistics.read(1, value == null || loaded.get() != null ? 0 : 1, begin_ns);
        V created = loaded.get();
        if (created != null && !listeners.isEmpty()) {
            listeners.stored(key, null, created);
        }
        return value;
    }

    /** Returns the value of a key in the cache, without the loader. */
    @Nullable V cached(K key) {
        return value(client.get(text(key)));
    }

    /** Sets {@code loaded} to the value that this call has loaded and stored. */
    private @Nullable V getOrLoad(K key, AtomicReference<@Nullable V> loaded) {
        Duration ttl = created();
        if (ttl == null) {
            V cached = cached(key);
            return cached == null ? through.load(key) : cached;
        }
        try {
            return value(
                    client.getOrLoad(
                            text(key),
                            LoadOptions.ttl(ttl),
                            () -> {
                                V value = through.load(key);
                                loaded.set(value);
                                return value;
                            }));
        } catch (CacheException.Loading e) {
            throw e.getCause() instanceof CacheLoaderException known
                    ? known
                    : new CacheLoaderException(e);
        }
    }

    @Override
    public Map<K, V> getAll(Set<? extends K> keys) {
        long begin_ns = statistics.begin();
        Map<String, K> byText = new HashMap<>();
        keys.forEach(key -> byText.put(text(key), key));
        Map<K, V> found = new HashMap<>();
        client.getMany(byText.keySet())
                .forEach((text, stored) -> found.put(byText.get(text), value(stored)));
        statistics.read(byText.size(), found.size(), begin_ns);
        if (through.reads()) {
            Set<K> missing = new HashSet<>(byText.values());
            missing.removeAll(found.keySet());
            found.putAll(load(missing));
        }
        return found;
    }

    private Map<K, V> load(Collection<? extends K> keys) {
        Map<K, V> loaded = through.loadAll(keys);
        Duration ttl = created();
        if (ttl != null) {
            loaded.forEach(this::store);
        }
        return loaded;
    }

    @Override
    public boolean containsKey(K key) {
        return cached(key) != null;
    }

    /** Loads in the calling thread; calls {@code listener} before this returns. */
    @Override
    public void loadAll(
            Set<? extends K> keys, boolean replace, @Nullable CompletionListener listener) {
        requireOpen();
        try {
            Set<K> wanted = new HashSet<>(keys);
            if (!replace && through.hasLoader()) {
                wanted.removeIf(this::containsKey);
            }
            load(wanted);
        } catch (RuntimeException e) {
            if (listener != null) {
                listener.onException(e);
            }
            return;
        }
        if (listener != null) {
            listener.onCompletion();
        }
    }

    @Override
    public void put(K key, V value) {
        text(key);
        long begin_ns = statistics.begin();
        through.write(key, Objects.requireNonNull(value));
        store(key, value);
        statistics.stored(1, begin_ns);
    }

    private void store(K key, V value) {
        if (!listeners.isEmpty()) {
            change(key, old -> Decision.fill(value, null));
            return;
        }
        Duration ttl = created();
        if (ttl == null) {
            client.delete(text(key));
        } else {
            client.set(text(key), value, ttl);
        }
    }

    @Override
    public @Nullable V getAndPut(K key, V value) {
        return change(key, old -> Decision.store(value, old));
    }

    @Override
    public void putAll(Map<? extends K, ? extends V> entries) {
        requireOpen();
        long begin_ns = statistics.begin();
        AtomicLong stored = new AtomicLong();
        try {
            through.writeAll(
                    entries,
                    (key, value) -> {
                        store(key, value);
                        stored.incrementAndGet();
                    });
        } finally {
            statistics.stored(stored.get(), begin_ns);
        }
    }

    @Override
    public boolean putIfAbsent(K key, V value) {
        if (through.writes() || !listeners.isEmpty()) {
            return change(
                    key, old -> old == null ? Decision.store(value, true) : Decision.keep(false));
        }
        Duration ttl = created();
        long begin_ns = statistics.begin();
        boolean added = ttl != null && client.add(text(key), value, ttl);
        statistics.read(1, added ? 0 : 1, begin_ns);
        statistics.stored(added ? 1 : 0, begin_ns);
        return added;
    }

    @Override
    public boolean remove(K key) {
        text(key);
        long begin_ns = statistics.begin();
        through.delete(key);
        boolean removed = drop(key);
        statistics.removed(removed ? 1 : 0, begin_ns);
        return removed;
    }

    private boolean drop(K key) {
        return listeners.isEmpty()
                ? client.delete(text(key))
                : change(key, old -> old == null ? Decision.keep(false) : Decision.drop(true));
    }

    @Override
    public boolean remove(K key, V expected) {
        return change(
                key, old -> expected.equals(old) ? Decision.remove(true) : Decision.keep(false));
    }

    @Override
    public @Nullable V getAndRemove(K key) {
        return change(key, old -> old == null ? Decision.keep(null) : Decision.remove(old));
    }

    @Override
    public boolean replace(K key, V expected, V value) {
        return change(
                key,
                old -> expected.equals(old) ? Decision.store(value, true) : Decision.keep(false));
    }

    @Override
    public boolean replace(K key, V value) {
        return change(key, old -> old == null ? Decision.keep(false) : Decision.store(value, true));
    }

    @Override
    public @Nullable V getAndReplace(K key, V value) {
        return change(key, old -> old == null ? Decision.keep(null) : Decision.store(value, old));
    }

    @Override
    public void removeAll(Set<? extends K> keys) {
        requireOpen();
        long begin_ns = statistics.begin();
        AtomicLong removed = new AtomicLong();
        try {
            through.deleteAll(
                    keys,
                    key -> {
                        if (drop(key)) {
                            removed.incrementAndGet();
                        }
                    });
        } finally {
            statistics.removed(removed.get(), begin_ns);
        }
    }

    /**
     * Removes each key if there is a writer or a listener; otherwise deletes all items on the
     * servers.
     */
    @Override
    public void removeAll() {
        if (through.writes() || !listeners.isEmpty()) {
            Set<K> keys = new HashSet<>();
            forEach(entry -> keys.add(entry.getKey()));
            removeAll(keys);
        } else {
            clear();
        }
    }

    /** Deletes all items on the servers of this cache, including those of other applications. */
    @Override
    public void clear() {
        requireOpen();
        client.flushAll();
    }

    @Override
    @SuppressWarnings("unchecked")
    public <C extends Configuration<K, V>> C getConfiguration(Class<C> type) {
        if (!type.isInstance(configuration)) {
            throw new IllegalArgumentException("not a " + type);
        }
        return (C) configuration;
    }

    @Override
    public <T extends @Nullable Object> T invoke(
            K key, EntryProcessor<K, V, T> processor, Object... arguments) {
        return change(
                key,
                old -> {
                    CellarEntry<K, V> entry =
                            new CellarEntry<>(key, old, through.reads() ? through::load : null);
                    T answer;
                    try {
                        answer = processor.process(entry, arguments);
                    } catch (EntryProcessorException e) {
                        throw e;
                    } catch (RuntimeException e) {
                        throw new EntryProcessorException(e);
                    }
                    V now = entry.now();
                    if (!entry.isChanged()) {
                        return now == null || now == old
                                ? Decision.keep(answer)
                                : Decision.fill(now, answer);
                    }
                    return now == null ? Decision.remove(answer) : Decision.store(now, answer);
                });
    }

    @Override
    public <T> Map<K, EntryProcessorResult<T>> invokeAll(
            Set<? extends K> keys, EntryProcessor<K, V, T> processor, Object... arguments) {
        Map<K, EntryProcessorResult<T>> results = new HashMap<>();
        for (K key : keys) {
            Supplier<T> result;
            try {
                T answer = invoke(key, processor, arguments);
                result = () -> answer;
            } catch (EntryProcessorException e) {
                result =
                        () -> {
                            throw e;
                        };
            }
            results.put(key, result::get);
        }
        return results;
    }

    @Override
    public String getName() {
        return name;
    }

    @Override
    public CacheManager getCacheManager() {
        return manager;
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            manager.forget(name);
            Beans.show(this, Beans.Kind.STATISTICS, statistics, false);
            management(false);
            listeners.close();
            through.close();
        }
    }

    @Override
    public boolean isClosed() {
        return closed;
    }

    @Override
    public <T> T unwrap(Class<T> type) {
        if (type.isInstance(client)) {
            return type.cast(client);
        }
        if (type.isInstance(this)) {
            return type.cast(this);
        }
        throw new IllegalArgumentException("not a " + type);
    }

    @Override
    public void registerCacheEntryListener(CacheEntryListenerConfiguration<K, V> listener) {
        requireOpen();
        configuration.addCacheEntryListenerConfiguration(listener);
        listeners.add(listener);
    }

    @Override
    public void deregisterCacheEntryListener(CacheEntryListenerConfiguration<K, V> listener) {
        requireOpen();
        configuration.removeCacheEntryListenerConfiguration(listener);
        listeners.remove(listener);
    }

    /** Iterates over the keys that exist now; only supported if keys are text. */
    @Override
    public Iterator<Entry<K, V>> iterator() {
        requireOpen();
        if (!configuration.getKeyType().isAssignableFrom(String.class)) {
            throw new UnsupportedOperationException("only keys of text can be listed");
        }
        return new CellarIterator<>(this, client.keys(Listing.EXACT));
    }
}
