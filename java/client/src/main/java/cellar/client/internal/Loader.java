package cellar.client.internal;

import cellar.client.CacheException;
import cellar.client.CasOutcome;
import cellar.client.LoadOptions;
import cellar.client.internal.cluster.Request;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation.Mode;

import org.jspecify.annotations.Nullable;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Loads through: of all who miss, one loads.
 *
 * <p>In the process, callers of the same key share one flight. Among processes the server's lease
 * decides: {@code mg} with {@code N} creates an empty item on a miss and tells one caller that it
 * won. A server without meta commands gets a key of its own as a lock, by {@code add}. A delete
 * ends the lease, so that the value that was computed before it is not stored.
 */
final class Loader<V> {
    private static final Duration LEASE = Duration.ofSeconds(30);
    private static final long PAUSE_MS_MIN = 5;
    private static final long PAUSE_MS_MAX = 200;
    private static final String LOCK_SUFFIX = "#lease";

    /** One caller on the way to a value, with those who joined. */
    private final class Flight {
        final String key;
        final byte[] bytes;
        final LoadOptions options;
        final Supplier<? extends CompletionStage<? extends @Nullable V>> load;
        final CompletableFuture<@Nullable V> result = new CompletableFuture<>();
        final long until_ns;
        long pause_ms = PAUSE_MS_MIN;

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

    CompletionStage<@Nullable V> get(
            String key,
            LoadOptions options,
            Supplier<? extends CompletionStage<? extends @Nullable V>> load) {
        return join(new Flight(key, options, load), this::ask);
    }

    /** The same, but the calling thread asks, and has a value that is there when this returns. */
    CompletableFuture<@Nullable V> getNow(
            String key,
            LoadOptions options,
            Supplier<? extends CompletionStage<? extends @Nullable V>> load) {
        return join(new Flight(key, options, load), this::askNow);
    }

    private CompletableFuture<@Nullable V> join(Flight flight, Consumer<Flight> ask) {
        Flight other = flights.putIfAbsent(flight.key, flight);
        if (other != null) {
            return other.result.thenApply(value -> value);
        }
        ask.accept(flight);
        return flight.result;
    }

    private void askNow(Flight flight) {
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
        read(flight).whenComplete((read, failure) -> answered(flight, read, failure));
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
            await(flight, () -> ask(flight));
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

    /** Others go on with the old value if there is one; so they do not join this flight. */
    private void won(Flight flight, ReadOperation<?> read) {
        boolean placeholder = Requests.isPlaceholder(read);
        if (!placeholder) {
            flights.remove(flight.key, flight);
        }
        load(flight)
                .whenComplete(
                        (value, failure) -> {
                            if (failure != null || value == null) {
                                giveUp(flight, read.version(), placeholder)
                                        .whenComplete((done, lost) -> flight.end(null, failure));
                            } else {
                                Mode mode = placeholder ? Mode.CAS : Mode.CAS_LATE;
                                store(flight, value, mode, read.version());
                            }
                        });
    }

    private CompletableFuture<@Nullable V> load(Flight flight) {
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

    /** Ends the lease; who is told that there is no value can then add one. */
    private CompletionStage<?> giveUp(Flight flight, long version, boolean placeholder) {
        if (!placeholder) {
            return CompletableFuture.completedStage(null);
        }
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

    private void await(Flight flight, Runnable again) {
        if (System.nanoTime() - flight.until_ns > 0) {
            loadAnyway(flight);
            return;
        }
        long pause_ms = flight.pause_ms;
        flight.pause_ms = Math.min(PAUSE_MS_MAX, pause_ms * 2);
        core.loops().next().schedule(again, pause_ms, TimeUnit.MILLISECONDS);
    }

    private void loadAnyway(Flight flight) {
        load(flight)
                .whenComplete(
                        (value, failure) -> {
                            if (failure != null || value == null) {
                                flight.end(null, failure);
                            } else {
                                store(flight, value, Mode.SET, 0);
                            }
                        });
    }

    // Servers without leases.

    private void lock(Flight flight) {
        byte[] lockKey = lockKey(flight.key);
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
                                await(flight, () -> ask(flight));
                            }
                        });
    }

    /** Of all who read an item that was invalidated on all its nodes, one loads it. */
    private void renew(Flight flight, ReadOperation<?> stale) {
        byte[] lockKey = lockKey(flight.key);
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
                            loadAnyway(flight);
                        });
    }

    /** Another may have loaded between this caller's miss and its lock, so it looks once more. */
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
                                loadAnyway(flight);
                            }
                        });
    }

    private static byte[] lockKey(String key) {
        byte[] bytes = (key + LOCK_SUFFIX).getBytes(StandardCharsets.UTF_8);
        return bytes.length <= Keys.KEY_BYTES_MAX
                ? bytes
                : Keys.bytes(Integer.toHexString(key.hashCode()) + LOCK_SUFFIX);
    }
}
