package cellar.client.internal;

import cellar.client.CacheException;
import cellar.client.CasOutcome;
import cellar.client.LoadOptions;
import cellar.client.internal.cluster.Request;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation.Mode;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Read-through: of all callers that miss a key, one loads it.
 *
 * <p>In this process, callers of the same key share one flight. Between processes the server's
 * lease decides. {@code mg} with {@code N} creates an empty item on a miss and tells one caller
 * that it won the lease. For a server without meta commands, a separate key serves as the lock, set
 * by {@code add}. A delete ends the lease, so a value that was loaded before the delete is not
 * stored.
 *
 * <p>With a negative TTL this process remembers that a loader has found nothing. Callers then read
 * without loading, so they find a value that another client stores. Callers in other processes that
 * have waited for the lease find a marker under a separate key, so they do not load one after
 * another.
 */
final class Loader<V> {
    private static final Duration LEASE = Duration.ofSeconds(30);
    private static final long PAUSE_MS_MIN = 5;
    private static final long PAUSE_MS_MAX = 200;
    private static final String LOCK_SUFFIX = "#lease";
    private static final String ABSENT_SUFFIX = "#absent";

    /**
     * Longer than {@link #PAUSE_MS_MAX}, so that every waiting caller finds the marker on its next
     * read.
     */
    private static final Duration ABSENT = Duration.ofSeconds(2);

    /** One load, with the callers that wait for it. */
    private final class Flight {
        final String key;
        final byte[] bytes;
        final LoadOptions options;
        final Supplier<? extends CompletionStage<? extends @Nullable V>> load;
        final CompletableFuture<@Nullable V> result = new CompletableFuture<>();
        final long until_ns;
        private long pause_ms = PAUSE_MS_MIN;

        Flight(
                String key,
                LoadOptions options,
                Supplier<? extends CompletionStage<? extends @Nullable V>> load) {
            this.key = key;
            this.bytes = Keys.bytes(key);
            this.options = options;
            this.load = load;
            this.until_ns = System.nanoTime() + options.patience().toNanos();
        }

        /** Returns the pause before the next attempt, longer each time. */
        long nextPause_ms() {
            long next_ms = pause_ms;
            pause_ms = Math.min(PAUSE_MS_MAX, next_ms * 2);
            return next_ms;
        }

        boolean hasPaused() {
            return pause_ms > PAUSE_MS_MIN;
        }

        void end(@Nullable V value, @Nullable Throwable failure) {
            flights.remove(key, this);
            if (failure == null) {
                result.complete(value);
            } else {
                result.completeExceptionally(Stages.known(failure));
            }
        }
    }

    private final AsyncView<V> view;
    private final Core core;
    private final Map<String, Flight> flights = new ConcurrentHashMap<>();

    Loader(AsyncView<V> view, Core core) {
        this.view = view;
        this.core = core;
    }

    /** Returns a local copy that is fresh enough; null if there is none. */
    @Nullable V peek(String key, LoadOptions options) {
        Duration localTtl = localTtl(options);
        return localTtl == null ? null : view.required().peek(key, localTtl, view.form());
    }

    private @Nullable Duration localTtl(LoadOptions options) {
        return options.localTtl() != null ? options.localTtl() : view.localTtl();
    }

    CompletionStage<@Nullable V> get(
            String key,
            LoadOptions options,
            Supplier<? extends CompletionStage<? extends @Nullable V>> load) {
        V copy = peek(key, options);
        if (copy != null) {
            return CompletableFuture.completedStage(copy);
        }
        return core.absences().has(key)
                ? look(key, options)
                : join(new Flight(key, options, load), this::ask);
    }

    /**
     * As {@link #get}, but the calling thread sends the read; a value that exists is complete on
     * return.
     */
    CompletableFuture<@Nullable V> getNow(
            String key,
            LoadOptions options,
            Supplier<? extends CompletionStage<? extends @Nullable V>> load) {
        return core.absences().has(key)
                ? look(key, options).toCompletableFuture()
                : join(new Flight(key, options, load), this::askNow);
    }

    /** Reads without loading. */
    private CompletionStage<@Nullable V> look(String key, LoadOptions options) {
        Duration localTtl = localTtl(options);
        return localTtl == null ? view.remote(key) : view.get(key, localTtl);
    }

    private CompletableFuture<@Nullable V> join(Flight flight, Consumer<Flight> ask) {
        Flight other = flights.putIfAbsent(flight.key, flight);
        if (other != null) {
            return other.result.thenApply(value -> value);
        }
        ask.accept(flight);
        // A caller that cancels its stage does not cancel those of the others.
        return flight.result.thenApply(value -> value);
    }

    private void askNow(Flight flight) {
        if (localTtl(flight.options) != null) {
            ask(flight);
            return;
        }
        ReadOperation<?> read = null;
        RuntimeException failure = null;
        try {
            read = core.cluster().readNow(flight.bytes, () -> reading(flight));
        } catch (RuntimeException e) {
            failure = e;
        }
        answered(flight, read, failure);
    }

    private void ask(Flight flight) {
        boolean keeps = localTtl(flight.options) != null;
        CompletionStage<ReadOperation<?>> asked =
                keeps
                        ? view.required().through(flight.key, view.form(), () -> read(flight))
                        : read(flight);
        asked.whenComplete((read, failure) -> answered(flight, read, failure));
    }

    private CompletionStage<ReadOperation<?>> read(Flight flight) {
        try {
            return core.cluster().read(flight.bytes, () -> reading(flight));
        } catch (CacheException e) {
            return CompletableFuture.failedStage(e);
        }
    }

    private ReadOperation<ReadOperation<?>> reading(Flight flight) {
        int wanted = view.wanted() | ReadOperation.FLAGS | ReadOperation.VERSION;
        wanted |= localTtl(flight.options) == null ? 0 : ReadOperation.TTL;
        return new ReadOperation<ReadOperation<?>>(flight.bytes, wanted, read -> read)
                .lease(LEASE.toSeconds(), flight.options.early().toSeconds());
    }

    private void answered(
            Flight flight, @Nullable ReadOperation<?> read, @Nullable Throwable failure) {
        if (read == null || failure != null) {
            flight.end(null, failure);
        } else if (!read.hit()) {
            lock(flight);
        } else if (read.won()) {
            won(flight, read);
        } else if (Requests.isPlaceholder(read)) {
            await(flight, Mode.CAS, read.version());
        } else if (read.stale() && !read.waiting()) {
            renew(flight, read);
        } else {
            decode(flight, read);
        }
    }

    private void decode(Flight flight, ReadOperation<?> read) {
        try {
            flight.end(view.value(read), null);
        } catch (CacheException e) {
            flight.end(null, e);
        }
    }

    /**
     * If there is an old value, other callers return it instead of waiting, so this flight is
     * removed.
     */
    private void won(Flight flight, ReadOperation<?> read) {
        boolean placeholder = Requests.isPlaceholder(read);
        if (!placeholder) {
            flights.remove(flight.key, flight);
        }
        load(flight)
                .whenComplete(
                        (value, failure) -> {
                            if (failure == null && value != null) {
                                store(flight, value, Mode.CAS, read.version());
                            } else if (placeholder) {
                                nothing(flight, read.version(), failure);
                            } else {
                                flight.end(null, failure);
                            }
                        });
    }

    /** Remembers that the loader found nothing, unless the item was changed meanwhile. */
    private void nothing(Flight flight, long version, @Nullable Throwable failure) {
        giveUp(flight, version)
                .whenComplete(
                        (held, lost) -> {
                            Duration ttl = flight.options.negativeTtl();
                            boolean unchanged = held != null && held;
                            if (failure == null && ttl != null && unchanged) {
                                core.absences().remember(flight.key, ttl);
                            }
                            flight.end(null, failure);
                        });
    }

    /** Calls the loader, unless a process that this one has waited for found nothing. */
    private CompletableFuture<@Nullable V> load(Flight flight) {
        if (flight.options.negativeTtl() == null) {
            return loadHere(flight);
        }
        byte[] mark = beside(flight.key, ABSENT_SUFFIX);
        boolean waited = flight.hasPaused();
        CompletableFuture<Boolean> known =
                waited ? marked(mark) : CompletableFuture.completedFuture(false);
        return known.thenCompose(
                found ->
                        found
                                ? CompletableFuture.completedFuture(null)
                                : loadHere(flight).thenCompose(value -> marking(mark, value)));
    }

    /** Whether the marker exists; false if the read fails. */
    private CompletableFuture<Boolean> marked(byte[] mark) {
        try {
            int wanted = core.cluster().alsoRead();
            return core.cluster()
                    .<Boolean>read(
                            mark, () -> new ReadOperation<>(mark, wanted, ReadOperation::hit))
                    .exceptionally(failure -> false)
                    .toCompletableFuture();
        } catch (CacheException e) {
            return CompletableFuture.completedFuture(false);
        }
    }

    /** Stores the marker if there is no value; a failure to store it is ignored. */
    private CompletionStage<@Nullable V> marking(byte[] mark, @Nullable V value) {
        if (value != null) {
            return CompletableFuture.completedStage(value);
        }
        try {
            return core.cluster()
                    .write(Requests.storeNumber(mark, 1, ABSENT, Mode.SET))
                    .handle((outcome, failure) -> null);
        } catch (CacheException e) {
            return CompletableFuture.completedStage(null);
        }
    }

    private CompletableFuture<@Nullable V> loadHere(Flight flight) {
        try {
            return flight.load
                    .get()
                    .handle(
                            (@Nullable V value, @Nullable Throwable failure) -> {
                                if (failure != null) {
                                    throw loading(failure);
                                }
                                return value;
                            })
                    .toCompletableFuture();
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(loading(e));
        }
    }

    private static CacheException loading(Throwable failure) {
        return new CacheException.Loading("the loader failed", failure);
    }

    /**
     * Ends the lease, so that a caller that misses can add a value. False if the item was changed
     * meanwhile.
     */
    private CompletionStage<Boolean> giveUp(Flight flight, long version) {
        try {
            return view.write(flight.key, Requests.delete(flight.bytes, version));
        } catch (CacheException e) {
            return CompletableFuture.failedStage(e);
        }
    }

    private void store(Flight flight, V value, Mode mode, long version) {
        try {
            view.store(flight.key, value, flight.options.ttl(), mode, version)
                    .whenComplete((outcome, failure) -> flight.end(value, null));
        } catch (CacheException e) {
            flight.end(null, e);
        }
    }

    /**
     * Reads again after a pause, or loads if {@code patience} is over. The loaded value is stored
     * only if nothing was written since the last read, as {@code mode} ensures.
     */
    private void await(Flight flight, Mode mode, long version) {
        if (System.nanoTime() - flight.until_ns > 0) {
            loadAnyway(flight, mode, version);
            return;
        }
        core.loops()
                .next()
                .schedule(() -> ask(flight), flight.nextPause_ms(), TimeUnit.MILLISECONDS);
    }

    private void loadAnyway(Flight flight, Mode mode, long version) {
        load(flight)
                .whenComplete(
                        (value, failure) -> {
                            Duration ttl = flight.options.negativeTtl();
                            if (failure == null && value == null && ttl != null) {
                                core.absences().remember(flight.key, ttl);
                            }
                            if (failure != null || value == null) {
                                flight.end(null, failure);
                            } else {
                                store(flight, value, mode, version);
                            }
                        });
    }

    // Servers without leases.

    private void lock(Flight flight) {
        byte[] lockKey = beside(flight.key, LOCK_SUFFIX);
        Request<CasOutcome> lock = Requests.storeNumber(lockKey, 1, LEASE, Mode.ADD);
        core.cluster()
                .write(lock)
                .whenComplete(
                        (outcome, failure) -> {
                            if (failure != null) {
                                flight.end(null, failure);
                            } else if (AsyncView.stored(outcome)) {
                                loadLocked(flight, lockKey);
                            } else {
                                await(flight, Mode.ADD, 0);
                            }
                        });
    }

    /** Of all callers that read an item which was invalidated on all its nodes, one loads it. */
    private void renew(Flight flight, ReadOperation<?> stale) {
        byte[] lockKey = beside(flight.key, LOCK_SUFFIX);
        core.cluster()
                .write(Requests.storeNumber(lockKey, 1, LEASE, Mode.ADD))
                .whenComplete(
                        (outcome, failure) -> {
                            if (failure != null || !AsyncView.stored(outcome)) {
                                decode(flight, stale);
                                return;
                            }
                            flights.remove(flight.key, flight);
                            flight.result.whenComplete(
                                    (value, failed) ->
                                            core.cluster().write(Requests.delete(lockKey)));
                            loadAnyway(flight, Mode.CAS, stale.version());
                        });
    }

    /** Another caller may have loaded between this one's miss and its lock, so it reads again. */
    private void loadLocked(Flight flight, byte[] lockKey) {
        flight.result.whenComplete(
                (value, failure) -> core.cluster().write(Requests.delete(lockKey)));
        read(flight)
                .whenComplete(
                        (read, failure) -> {
                            if (read == null || failure != null) {
                                flight.end(null, failure);
                            } else if (read.hit()) {
                                decode(flight, read);
                            } else {
                                loadAnyway(flight, Mode.ADD, 0);
                            }
                        });
    }

    /** Returns a key for information about another key. */
    private static byte[] beside(String key, String suffix) {
        byte[] bytes = (key + suffix).getBytes(StandardCharsets.UTF_8);
        return bytes.length <= Keys.KEY_BYTES_MAX ? bytes : Keys.bytes(digest(key) + suffix);
    }

    private static String digest(String key) {
        try {
            byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
            return Base64.getUrlEncoder().withoutPadding().encodeToString(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }
}
