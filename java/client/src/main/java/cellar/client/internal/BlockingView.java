package cellar.client.internal;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheClient;
import cellar.client.CasOutcome;
import cellar.client.Listing;
import cellar.client.LoadOptions;
import cellar.client.Ttl;
import cellar.client.Versioned;
import cellar.client.internal.cluster.Cluster;
import cellar.client.internal.cluster.Request;
import cellar.client.internal.local.LocalCache;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation.Mode;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The blocking interface: the calling thread uses the socket and decodes its own value. */
final class BlockingView<V> implements BlockingCacheClient<V> {
    private final AsyncView<V> view;
    private final Cluster cluster;
    private final Requests<V> requests;

    BlockingView(AsyncView<V> view) {
        this.view = view;
        this.cluster = view.core().cluster();
        this.requests = view.requests();
    }

    @Override
    public @Nullable V get(String key) {
        Duration localTtl = view.localTtl();
        return localTtl == null ? remote(key) : get(key, localTtl);
    }

    private @Nullable V remote(String key) {
        byte[] bytes = Keys.bytes(key);
        return view.value(
                cluster.readNow(
                        bytes, () -> new ReadOperation<>(bytes, view.wanted(), found -> found)));
    }

    @Override
    public @Nullable V get(String key, Duration localTtl) {
        V copy = view.required().peek(key, localTtl, view.form());
        return copy != null ? copy : Stages.await(view.get(key, localTtl));
    }

    @Override
    public @Nullable Versioned<V> getVersioned(String key) {
        view.requireMemcached();
        byte[] bytes = Keys.bytes(key);
        int also = view.wanted() | ReadOperation.VERSION;
        ReadOperation<?> read =
                cluster.readNow(bytes, () -> new ReadOperation<>(bytes, also, found -> found));
        V value = view.value(read);
        return value == null ? null : new Versioned<>(value, read.version());
    }

    @Override
    public Map<String, V> getMany(Collection<String> keys) {
        if (view.localTtl() != null || cluster.hasSecondChoice() || !cluster.takesManyAtOnce()) {
            return Stages.await(view.getMany(keys));
        }
        Map<Endpoint, List<String>> byNode = view.byNode(keys);
        if (byNode.size() == 1) {
            Map.Entry<Endpoint, List<String>> part = byNode.entrySet().iterator().next();
            return Cluster.askNow(part.getKey(), view.readMany(part.getValue()));
        }
        // Requests to several nodes are sent at the same time.
        return Stages.await(view.readParts(byNode));
    }

    @Override
    public void set(String key, V value, Duration ttl) {
        write(key, requests.store(Keys.bytes(key), value, ttl, Mode.SET, 0));
    }

    @Override
    public boolean add(String key, V value, Duration ttl) {
        return AsyncView.stored(
                write(key, requests.store(Keys.bytes(key), value, ttl, Mode.ADD, 0)));
    }

    @Override
    public boolean replace(String key, V value, Duration ttl) {
        return AsyncView.stored(
                write(key, requests.store(Keys.bytes(key), value, ttl, Mode.REPLACE, 0)));
    }

    @Override
    public boolean append(String key, V value) {
        view.requireMemcached();
        return AsyncView.stored(write(key, requests.extend(Keys.bytes(key), value, Mode.APPEND)));
    }

    @Override
    public boolean prepend(String key, V value) {
        view.requireMemcached();
        return AsyncView.stored(write(key, requests.extend(Keys.bytes(key), value, Mode.PREPEND)));
    }

    @Override
    public CasOutcome cas(String key, V value, long version, Duration ttl) {
        view.requireMemcached();
        return write(key, requests.store(Keys.bytes(key), value, ttl, Mode.CAS, version));
    }

    @Override
    public boolean delete(String key) {
        return write(key, Requests.delete(Keys.bytes(key)));
    }

    @Override
    public void setMany(Map<String, V> values, Duration ttl) {
        Stages.await(view.setMany(values, ttl));
    }

    @Override
    public int deleteMany(Collection<String> keys) {
        return Stages.await(view.deleteMany(keys));
    }

    @Override
    public boolean invalidate(String key, Duration stale) {
        return write(key, Requests.invalidate(Keys.bytes(key), stale));
    }

    @Override
    public boolean touch(String key, Duration ttl) {
        return write(key, Requests.touch(Keys.bytes(key), ttl));
    }

    /**
     * Sends a change. The local copy is dropped before it is sent and again when it is answered.
     */
    private <R extends @Nullable Object> R write(String key, Request<R> request) {
        view.core().absences().forget(key);
        LocalCache local = view.local();
        if (local == null) {
            return cluster.writeNow(request);
        }
        local.forget(key);
        try {
            return cluster.writeNow(request);
        } finally {
            local.forget(key);
        }
    }

    @Override
    public @Nullable V getOrLoad(
            String key, LoadOptions options, Supplier<? extends @Nullable V> loader) {
        V copy = view.loader().peek(key, options);
        if (copy != null) {
            return copy;
        }
        CompletableFuture<CompletableFuture<@Nullable V>> turn = new CompletableFuture<>();
        CompletableFuture<@Nullable V> answer =
                view.loader()
                        .getNow(
                                key,
                                options,
                                () -> {
                                    CompletableFuture<@Nullable V> loaded =
                                            new CompletableFuture<>();
                                    turn.complete(loaded);
                                    return loaded;
                                });
        Stages.await(CompletableFuture.anyOf(answer, turn).exceptionally(failure -> null));
        CompletableFuture<@Nullable V> loaded = turn.getNow(null);
        if (loaded != null && !answer.isDone()) {
            load(loader, loaded);
        }
        return Stages.await(answer);
    }

    private static <V> void load(
            Supplier<? extends @Nullable V> loader, CompletableFuture<@Nullable V> loaded) {
        try {
            loaded.complete(loader.get());
        } catch (RuntimeException e) {
            loaded.completeExceptionally(e);
        }
    }

    @Override
    public Set<String> keys(Listing listing) {
        return Stages.await(view.keys(listing));
    }

    @Override
    public void flushAll() {
        Stages.await(view.flushAll());
    }

    @Override
    public void storeCounter(String key, long number, Duration ttl) {
        write(key, Requests.storeNumber(Keys.bytes(key), number, ttl, Mode.SET));
    }

    @Override
    public @Nullable Long getCounter(String key) {
        byte[] bytes = Keys.bytes(key);
        return CounterView.number(
                cluster.readNow(
                        bytes,
                        () -> new ReadOperation<>(bytes, cluster.alsoRead(), found -> found)));
    }

    @Override
    public @Nullable Long increment(String key, long by) {
        return write(key, Requests.count(Keys.bytes(key), by, false, -1, Ttl.NEVER));
    }

    @Override
    public @Nullable Long decrement(String key, long by) {
        return write(key, Requests.count(Keys.bytes(key), by, true, -1, Ttl.NEVER));
    }

    @Override
    public long addOrIncrement(String key, long by, Duration ttl) {
        return count(key, by, false, by, ttl);
    }

    @Override
    public long addOrDecrement(String key, long by, long initial, Duration ttl) {
        return count(key, by, true, initial, ttl);
    }

    private long count(String key, long by, boolean down, long initial, Duration ttl) {
        byte[] bytes = Keys.bytes(key);
        Requests.notNegative(initial);
        Long number = write(key, Requests.count(bytes, by, down, initial, ttl));
        // Only a server without meta commands returns no number; then the counter is added.
        for (int attempt = 1; number == null && attempt <= CounterView.ATTEMPTS_MAX; attempt++) {
            if (AsyncView.stored(write(key, Requests.storeNumber(bytes, initial, ttl, Mode.ADD)))) {
                return initial;
            }
            number = write(key, Requests.count(bytes, by, down, -1, Ttl.NEVER));
        }
        if (number == null) {
            throw CounterView.restless();
        }
        return number;
    }

    @Override
    public CacheClient<V> async() {
        return view;
    }

    @Override
    public void close() {
        view.close();
    }
}
