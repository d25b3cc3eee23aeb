package cellar.client.internal.local;

import cellar.client.CacheException;
import cellar.client.CacheMetrics;
import cellar.client.internal.Core;
import cellar.client.internal.Stages;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.MetaLine;
import cellar.client.internal.wire.ReadOperation;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.LongSupplier;

/**
 * Copies of some items in this process.
 *
 * <p>A copy is served if the server confirmed it no longer ago than the caller allows, if it has
 * not expired, and, with tracking, only while changes are certain to be told of. Without tracking
 * an older copy is confirmed by its version, so that its value need not come again.
 *
 * <p>Invariant: nothing read before an invalidation is kept after it. A read registers a flight
 * first; whoever invalidates removes the flight before the copy; a flight puts its copy only while
 * it is registered, in one step with checking that.
 *
 * @param <V> type of the values
 */
public final class LocalCache<V> {
    private static final int ENTRY_BYTES = 96;

    private static final class Flight<V> {
        final CompletableFuture<@Nullable V> result = new CompletableFuture<>();
        final int flush;

        Flight(int flush) {
            this.flush = flush;
        }
    }

    private final Core core;
    private final Function<ReadOperation<?>, @Nullable V> decoder;
    private final @Nullable Tracking tracking;
    private final CacheMetrics metrics;
    private final LongSupplier ticker;
    private final Cache<String, Entry<V>> copies;
    private final ConcurrentHashMap<String, Flight<V>> flights = new ConcurrentHashMap<>();
    private final AtomicInteger flushes = new AtomicInteger();

    LocalCache(
            Core core,
            Function<ReadOperation<?>, @Nullable V> decoder,
            long bytesMax,
            @Nullable Tracking tracking,
            LongSupplier ticker) {
        this.core = core;
        this.decoder = decoder;
        this.tracking = tracking;
        this.metrics = core.settings().metrics();
        this.ticker = ticker;
        this.copies =
                Caffeine.newBuilder()
                        .maximumWeight(bytesMax)
                        .weigher((String key, Entry<V> entry) -> entry.weight_bytes())
                        .build();
    }

    /** A local copy, or what the server says; see {@code CacheClient.get}. */
    public CompletionStage<@Nullable V> get(String key, Duration localTtl) {
        long now_ns = ticker.getAsLong();
        Entry<V> copy = copies.getIfPresent(key);
        if (copy != null && serves(copy, now_ns, localTtl)) {
            metrics.local(true);
            return CompletableFuture.completedStage(copy.value());
        }
        metrics.local(false);
        byte[] bytes = Keys.bytes(key);
        Flight<V> mine = new Flight<>(flushes.get());
        Flight<V> other = flights.putIfAbsent(key, mine);
        if (other != null) {
            return other.result.thenApply(value -> value);
        }
        fetch(key, bytes, mine, copy != null && copy.isLive(now_ns) ? copy : null);
        return mine.result;
    }

    private boolean serves(Entry<V> copy, long now_ns, Duration localTtl) {
        Tracking.Ticket ticket = copy.ticket();
        return copy.isLive(now_ns)
                && now_ns - copy.seen_ns() <= nanos(localTtl)
                && (tracking == null
                        || ticket != null && ticket.isGood(core.cluster().generation()));
    }

    /** More than 292 years are for ever. */
    private static long nanos(Duration duration) {
        boolean fits = duration.getSeconds() < Long.MAX_VALUE / 1_000_000_000 - 1;
        return fits ? duration.toNanos() : Long.MAX_VALUE;
    }

    private void fetch(String key, byte[] bytes, Flight<V> flight, @Nullable Entry<V> old) {
        Tracking told = tracking;
        CompletionStage<Tracking.@Nullable Ticket> ticket =
                told == null ? CompletableFuture.completedStage(null) : told.track(bytes);
        ticket.whenComplete(
                (good, failure) -> {
                    long asked_ns = ticker.getAsLong();
                    read(bytes, told == null ? old : null)
                            .whenComplete(
                                    (read, failed) ->
                                            fetched(
                                                    key, flight, old, good, asked_ns, read,
                                                    failed));
                });
    }

    /** Asks for the value, or first whether {@code old} still is it. */
    private CompletionStage<ReadOperation<?>> read(byte[] key, @Nullable Entry<V> old) {
        try {
            int wanted =
                    ReadOperation.FLAGS
                            | ReadOperation.VERSION
                            | ReadOperation.TTL
                            | core.cluster().alsoRead();
            long known = old == null ? 0 : old.version();
            return core.cluster()
                    .<ReadOperation<?>>read(
                            key,
                            () ->
                                    new ReadOperation<ReadOperation<?>>(key, wanted, read -> read)
                                            .unless(known));
        } catch (CacheException e) {
            return CompletableFuture.failedStage(e);
        }
    }

    private void fetched(
            String key,
            Flight<V> flight,
            @Nullable Entry<V> old,
            Tracking.@Nullable Ticket ticket,
            long asked_ns,
            @Nullable ReadOperation<?> read,
            @Nullable Throwable failure) {
        if (read == null || failure != null) {
            flights.remove(key, flight);
            Throwable cause = failure == null ? new IllegalStateException("no answer") : failure;
            flight.result.completeExceptionally(Stages.known(cause));
            return;
        }
        try {
            Entry<V> entry = entry(key, old, ticket, asked_ns, read);
            keep(key, flight, entry);
            flight.result.complete(entry.value());
        } catch (CacheException e) {
            flights.remove(key, flight);
            flight.result.completeExceptionally(e);
        }
    }

    private Entry<V> entry(
            String key,
            @Nullable Entry<V> old,
            Tracking.@Nullable Ticket ticket,
            long asked_ns,
            ReadOperation<?> read) {
        byte[] bytes = read.bytes();
        if (read.hit() && bytes == null && old != null) {
            return old.confirmed(asked_ns);
        }
        long ends_ns = Entry.FOREVER;
        if (read.hit() && read.ttl_s() != MetaLine.FOREVER) {
            ends_ns = asked_ns + read.ttl_s() * 1_000_000_000;
        }
        if (ticket != null && ticket.ttl_ms() >= 0) {
            ends_ns = Math.min(ends_ns, asked_ns + ticket.ttl_ms() * 1_000_000);
        }
        int weight = ENTRY_BYTES + key.length() + (bytes == null ? 0 : bytes.length);
        return new Entry<>(decoder.apply(read), read.version(), asked_ns, ends_ns, weight, ticket);
    }

    private void keep(String key, Flight<V> flight, Entry<V> entry) {
        Tracking.Ticket ticket = entry.ticket();
        boolean trusted =
                tracking == null
                        ? entry.value() != null
                        : ticket != null && ticket.isGood(core.cluster().generation());
        flights.computeIfPresent(
                key,
                (same, registered) -> {
                    if (registered != flight) {
                        return registered;
                    }
                    if (trusted && flight.flush == flushes.get()) {
                        copies.put(key, entry);
                    } else {
                        copies.invalidate(key);
                    }
                    return null;
                });
    }

    /** Drops the copy; a read that is under way will not be kept. */
    public void forget(String key) {
        flights.remove(key);
        copies.invalidate(key);
    }

    /** The server told of a change. */
    void invalidated(String key) {
        metrics.invalidated();
        forget(key);
    }

    /** Drops all copies; reads that are under way will not be kept. */
    public void forgetAll() {
        flushes.incrementAndGet();
        flights.clear();
        copies.invalidateAll();
    }

    /** How many copies there are, about. */
    public long size() {
        return copies.estimatedSize();
    }
}
