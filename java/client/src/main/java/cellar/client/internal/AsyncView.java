package cellar.client.internal;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheClient;
import cellar.client.CacheException;
import cellar.client.CasOutcome;
import cellar.client.Codec;
import cellar.client.Counters;
import cellar.client.Listing;
import cellar.client.LoadOptions;
import cellar.client.Versioned;
import cellar.client.internal.cluster.KeyLister;
import cellar.client.internal.cluster.Request;
import cellar.client.internal.local.LocalCache;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.ReadManyOperation;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation.Mode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The asynchronous interface: makes operations, passes them to the cluster, and invalidates the
 * local cache.
 */
public final class AsyncView<V> implements CacheClient<V> {
    private final Core core;
    private final Codec<V> codec;
    private final Requests<V> requests;
    private final int wanted;
    private final @Nullable LocalCache local;
    private final LocalCache.Form<V> form;
    private final Loader<V> loader;
    private final BlockingCacheClient<V> blocking;
    private final Counters counters;

    /** Creates a view of {@code core}; {@code local} is null if there is no local cache. */
    public AsyncView(Core core, Codec<V> codec, @Nullable LocalCache local) {
        if (core.settings().redis() && codec.readsFlags()) {
            throw new CacheException.Configuration(
                    "a codec that reads flags cannot be used over Redis's protocol", null);
        }
        this.core = core;
        this.codec = codec;
        this.requests = new Requests<>(codec);
        this.wanted = (codec.readsFlags() ? ReadOperation.FLAGS : 0) | core.cluster().alsoRead();
        this.local = local;
        this.form = requests::value;
        this.loader = new Loader<>(this, core);
        this.blocking = new BlockingView<>(this);
        this.counters = new CounterView(this);
    }

    /** Returns the state that all views share. */
    public Core core() {
        return core;
    }

    Requests<V> requests() {
        return requests;
    }

    @Nullable LocalCache local() {
        return local;
    }

    /** Returns the function that decodes a read for the local cache. */
    LocalCache.Form<V> form() {
        return form;
    }

    /**
     * Returns the maximum age of a copy for calls without a {@code localTtl}; null if they read
     * from the server.
     */
    @Nullable Duration localTtl() {
        LocalCache cache = local;
        return cache == null ? null : cache.localTtl();
    }

    /** Returns the local cache, for a call with a {@code localTtl}. */
    LocalCache required() {
        LocalCache cache = local;
        if (cache == null) {
            throw new IllegalStateException("the client was built without a local cache");
        }
        return cache;
    }

    Loader<V> loader() {
        return loader;
    }

    int wanted() {
        return wanted;
    }

    // Reads.

    @Override
    public CompletionStage<@Nullable V> get(String key) {
        Duration localTtl = localTtl();
        return localTtl == null ? remote(key) : get(key, localTtl);
    }

    /** Reads from the server. */
    CompletionStage<@Nullable V> remote(String key) {
        byte[] bytes = Keys.bytes(key);
        return guarded(() -> core.cluster().read(bytes, () -> read(bytes)));
    }

    /** If no second node may be read, the bytes are not needed after decoding. */
    private ReadOperation<@Nullable V> read(byte[] key) {
        ReadOperation<@Nullable V> read = new ReadOperation<>(key, wanted, this::value);
        return core.cluster().hasSecondChoice() ? read : read.inPlace();
    }

    /** Returns the value of a read, null on a miss. */
    @Nullable V value(ReadOperation<?> read) {
        return requests.value(read);
    }

    @Override
    public CompletionStage<@Nullable V> get(String key, Duration localTtl) {
        return required().get(key, localTtl, form);
    }

    /** Rejects operations for which the Redis protocol has no command. */
    void requireMemcached() {
        if (core.settings().redis()) {
            throw new UnsupportedOperationException(
                    "versions, append, prepend and keys need memcached's protocol, not Redis's");
        }
    }

    @Override
    public CompletionStage<@Nullable Versioned<V>> getVersioned(String key) {
        requireMemcached();
        byte[] bytes = Keys.bytes(key);
        int also = wanted | ReadOperation.VERSION;
        return guarded(
                () ->
                        core.cluster()
                                .read(
                                        bytes,
                                        () -> new ReadOperation<>(bytes, also, this::versioned)));
    }

    private @Nullable Versioned<V> versioned(ReadOperation<?> read) {
        V value = value(read);
        return value == null ? null : new Versioned<>(value, read.version());
    }

    @Override
    public CompletionStage<Map<String, V>> getMany(Collection<String> keys) {
        Duration localTtl = localTtl();
        if (localTtl == null) {
            return guarded(
                    () -> core.cluster().ready().thenCompose(ready -> readParts(byNode(keys))));
        }
        Map<String, V> found = new ConcurrentHashMap<>();
        List<CompletableFuture<@Nullable Void>> parts = new ArrayList<>();
        for (String key : Set.copyOf(keys)) {
            V copy = required().peek(key, localTtl, form);
            if (copy == null) {
                parts.add(into(found, key, get(key, localTtl)));
            } else {
                found.put(key, copy);
            }
        }
        return Stages.all(parts).thenApply(done -> found);
    }

    /** Groups the keys by node, without duplicates. */
    Map<Endpoint, List<String>> byNode(Collection<String> keys) {
        Map<Endpoint, List<String>> byNode = new HashMap<>();
        for (String key : Set.copyOf(keys)) {
            Endpoint home = core.cluster().home(Keys.bytes(key));
            byNode.computeIfAbsent(home, node -> new ArrayList<>()).add(key);
        }
        return byNode;
    }

    CompletionStage<Map<String, V>> readParts(Map<Endpoint, List<String>> byNode) {
        List<CompletableFuture<Map<String, V>>> parts = new ArrayList<>();
        byNode.forEach((home, part) -> parts.add(readPart(home, part)));
        return merged(parts);
    }

    /** If a miss must be confirmed at other nodes, the missing keys are read again one by one. */
    private CompletableFuture<Map<String, V>> readPart(Endpoint home, List<String> keys) {
        if (!core.cluster().takesManyAtOnce()) {
            return readEach(keys, Map.of());
        }
        CompletableFuture<Map<String, V>> part = home.submit(readMany(keys));
        if (!core.cluster().hasSecondChoice()) {
            return part;
        }
        return part.exceptionally(failure -> Map.of()).thenCompose(found -> readEach(keys, found));
    }

    /** Reads each of {@code keys} that is not in {@code found}, one by one. */
    private CompletableFuture<Map<String, V>> readEach(List<String> keys, Map<String, V> found) {
        Map<String, V> all = new ConcurrentHashMap<>(found);
        List<CompletableFuture<@Nullable Void>> rest = new ArrayList<>();
        for (String key : keys) {
            if (!all.containsKey(key)) {
                rest.add(into(all, key, remote(key)));
            }
        }
        return Stages.all(rest).thenApply(done -> all);
    }

    ReadManyOperation<V> readMany(List<String> keys) {
        return requests.readMany(keys, (wanted & ReadOperation.MARKED) != 0);
    }

    private static <V> CompletableFuture<@Nullable Void> into(
            Map<String, V> found, String key, CompletionStage<@Nullable V> read) {
        return read.<@Nullable Void>thenApply(
                        value -> {
                            if (value != null) {
                                found.put(key, value);
                            }
                            return null;
                        })
                .toCompletableFuture();
    }

    private static <V> CompletionStage<Map<String, V>> merged(
            List<CompletableFuture<Map<String, V>>> parts) {
        if (parts.size() == 1) {
            return parts.get(0);
        }
        return Stages.all(parts)
                .thenApply(
                        maps -> {
                            Map<String, V> all = new HashMap<>();
                            maps.forEach(all::putAll);
                            return all;
                        });
    }

    // Changes.

    @Override
    public CompletionStage<@Nullable Void> set(String key, V value, Duration ttl) {
        return store(key, value, ttl, Mode.SET, 0).thenApply(stored -> null);
    }

    @Override
    public CompletionStage<Boolean> add(String key, V value, Duration ttl) {
        return store(key, value, ttl, Mode.ADD, 0).thenApply(AsyncView::stored);
    }

    @Override
    public CompletionStage<Boolean> replace(String key, V value, Duration ttl) {
        return store(key, value, ttl, Mode.REPLACE, 0).thenApply(AsyncView::stored);
    }

    @Override
    public CompletionStage<Boolean> append(String key, V value) {
        requireMemcached();
        return write(key, requests.extend(Keys.bytes(key), value, Mode.APPEND))
                .thenApply(AsyncView::stored);
    }

    @Override
    public CompletionStage<Boolean> prepend(String key, V value) {
        requireMemcached();
        return write(key, requests.extend(Keys.bytes(key), value, Mode.PREPEND))
                .thenApply(AsyncView::stored);
    }

    @Override
    public CompletionStage<CasOutcome> cas(String key, V value, long version, Duration ttl) {
        requireMemcached();
        return store(key, value, ttl, Mode.CAS, version);
    }

    @Override
    public CompletionStage<@Nullable Void> setMany(Map<String, V> values, Duration ttl) {
        List<Map.Entry<String, V>> entries = List.copyOf(values.entrySet());
        // All values are encoded first, so that a value that cannot be encoded changes nothing.
        List<Supplier<CompletionStage<CasOutcome>>> writes = new ArrayList<>();
        for (Map.Entry<String, V> entry : entries) {
            String key = entry.getKey();
            Request<CasOutcome> request =
                    requests.store(Keys.bytes(key), entry.getValue(), ttl, Mode.SET, 0);
            writes.add(() -> write(key, request));
        }
        return Stages.windowed(writes).thenApply(done -> null);
    }

    @Override
    public CompletionStage<Integer> deleteMany(Collection<String> keys) {
        List<Supplier<CompletionStage<Boolean>>> writes = new ArrayList<>();
        for (String key : Set.copyOf(keys)) {
            Request<Boolean> request = Requests.delete(Keys.bytes(key));
            writes.add(() -> write(key, request));
        }
        return Stages.windowed(writes)
                .thenApply(found -> (int) found.stream().filter(there -> there).count());
    }

    static boolean stored(CasOutcome outcome) {
        return outcome == CasOutcome.STORED;
    }

    CompletionStage<CasOutcome> store(String key, V value, Duration ttl, Mode mode, long version) {
        return write(key, requests.store(Keys.bytes(key), value, ttl, mode, version));
    }

    @Override
    public CompletionStage<Boolean> delete(String key) {
        return write(key, Requests.delete(Keys.bytes(key)));
    }

    @Override
    public CompletionStage<Boolean> invalidate(String key, Duration stale) {
        return write(key, Requests.invalidate(Keys.bytes(key), stale));
    }

    @Override
    public CompletionStage<Boolean> touch(String key, Duration ttl) {
        return write(key, Requests.touch(Keys.bytes(key), ttl));
    }

    /** Returns the approximate number of local copies. */
    public long localCopies() {
        LocalCache cache = local;
        return cache == null ? 0 : cache.size();
    }

    /** Drops the local copy of an item that was changed in another way. */
    public void forget(String key) {
        core.absences().forget(key);
        LocalCache cache = local;
        if (cache != null) {
            cache.forget(key);
        }
    }

    /**
     * Sends a change. The local copy is dropped before it is sent and again when it is answered.
     */
    <R extends @Nullable Object> CompletionStage<R> write(String key, Request<R> request) {
        core.absences().forget(key);
        LocalCache cache = local;
        if (cache == null) {
            return guarded(() -> send(request));
        }
        cache.forget(key);
        return guarded(() -> send(request)).whenComplete((answer, failure) -> cache.forget(key));
    }

    private <R extends @Nullable Object> CompletionStage<R> send(Request<R> request) {
        return core.cluster().write(request);
    }

    /** If no node is found for the key, the stage fails; the call throws nothing. */
    private static <R extends @Nullable Object> CompletionStage<R> guarded(
            Supplier<? extends CompletionStage<R>> asked) {
        try {
            return asked.get();
        } catch (CacheException e) {
            return CompletableFuture.failedStage(e);
        }
    }

    // Everything else.

    @Override
    public CompletionStage<@Nullable V> getOrLoad(
            String key,
            LoadOptions options,
            Supplier<? extends CompletionStage<? extends @Nullable V>> load) {
        return loader.get(key, options, load);
    }

    @Override
    public CompletionStage<Set<String>> keys(Listing listing) {
        requireMemcached();
        return KeyLister.list(core.cluster(), listing);
    }

    @Override
    public CompletionStage<@Nullable Void> flushAll() {
        LocalCache cache = local;
        return core.cluster()
                .flush(core.settings().redis() ? "FLUSHDB" : "flush_all")
                .thenApply(
                        done -> {
                            core.absences().forgetAll();
                            if (cache != null) {
                                cache.forgetAll();
                            }
                            return null;
                        });
    }

    @Override
    public Counters counters() {
        return counters;
    }

    @Override
    public BlockingCacheClient<V> blocking() {
        return blocking;
    }

    @Override
    public Codec<V> codec() {
        return codec;
    }

    @Override
    public <W> CacheClient<W> withCodec(Codec<W> other) {
        return new AsyncView<>(core, other, local);
    }

    @Override
    public void close() {
        core.close();
    }
}
