package cellar.client.internal.local;

import cellar.client.CacheException;
import cellar.client.CacheMetrics;
import cellar.client.internal.Core;
import cellar.client.internal.Stages;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.Link;
import cellar.client.internal.wire.MetaLine;
import cellar.client.internal.wire.ReadOperation;
import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Copies of some items in this process, for all views of a client.
 *
 * <p>A copy is returned if the server confirmed it at most {@code localTtl} ago and it has not
 * expired. With tracking, the invalidation connection must also be known to work. Without tracking,
 * an older copy is revalidated by its version, on the connection that delivered it; an unchanged
 * value is not sent again. Another connection sends the value, because each server process counts
 * its own versions. A copy is returned only to reads in its form; a read in another form replaces
 * it.
 *
 * <p>Invariant: no value read before an invalidation is kept after it. A read registers a flight
 * first. An invalidation removes the flight before the copy. A flight stores its copy only while it
 * is registered, atomically with that check.
 */
public final class LocalCache {
    /**
     * Decodes the value of a read; each view has one object.
     *
     * @param <V> type of the values
     */
    public interface Form<V> extends Function<ReadOperation<?>, @Nullable V> {}

    private static final int ENTRY_BYTES = 96;

    /** A registered read; {@code leased} reads keep values only, not misses. */
    private static final class Flight {
        final CompletableFuture<@Nullable Object> result = new CompletableFuture<>();
        final Form<?> form;
        final int flush;
        final boolean leased;

        Flight(Form<?> form, int flush, boolean leased) {
            this.form = form;
            this.flush = flush;
            this.leased = leased;
        }
    }

    private final Core core;
    private final @Nullable Tracking tracking;
    private final @Nullable Duration localTtl;
    private final CacheMetrics metrics;
    private final LongSupplier ticker;
    private final Cache<String, Entry> copies;
    private final ConcurrentHashMap<String, Flight> flights = new ConcurrentHashMap<>();
    private final AtomicInteger flushes = new AtomicInteger();

    LocalCache(Core core, long bytesMax, @Nullable Duration localTtl, @Nullable Tracking tracking) {
        this.core = core;
        this.localTtl = localTtl;
        this.tracking = tracking;
        this.metrics = core.settings().metrics();
        this.ticker = core.ticker();
        this.copies =
                Caffeine.newBuilder()
                        .maximumWeight(bytesMax)
                        .weigher((String key, Entry entry) -> entry.weight_bytes())
                        .build();
    }

    /**
     * Returns the maximum age of a copy for calls without a {@code localTtl}; null if these do not
     * use the cache.
     */
    public @Nullable Duration localTtl() {
        return localTtl;
    }

    /**
     * Returns the value of a copy that is fresh enough; null if there is none, or if it shows that
     * there is no item.
     */
    public <V> @Nullable V peek(String key, Duration localTtl, Form<V> form) {
        Entry copy = copies.getIfPresent(key);
        if (copy == null || copy.value() == null || !serves(copy, form, now(), localTtl)) {
            return null;
        }
        metrics.local(true);
        return value(copy);
    }

    /** Returns a local copy or reads from the server; see {@code CacheClient.get}. */
    public <V> CompletionStage<@Nullable V> get(String key, Duration localTtl, Form<V> form) {
        long now_ns = now();
        Entry copy = copies.getIfPresent(key);
        if (copy != null && serves(copy, form, now_ns, localTtl)) {
            metrics.local(true);
            return CompletableFuture.completedStage(value(copy));
        }
        metrics.local(false);
        byte[] bytes = Keys.bytes(key);
        Flight mine = new Flight(form, flushes.get(), false);
        Flight other = flights.putIfAbsent(key, mine);
        if (other == null) {
            boolean helps = copy != null && copy.form() == form && copy.isLive(now_ns);
            Entry old = tracking == null && helps ? copy : null;
            fetch(key, bytes, mine, old, () -> read(bytes, old));
            return result(mine);
        }
        return other.form == form && !other.leased
                ? result(other)
                : read(bytes, null).thenApply(form);
    }

    /**
     * Reads with {@code reader} after the key is tracked, and keeps a copy of a value unless it is
     * about to be replaced. For reads that request a lease.
     */
    public <V> CompletionStage<ReadOperation<?>> through(
            String key, Form<V> form, Supplier<CompletionStage<ReadOperation<?>>> reader) {
        metrics.local(false);
        Flight mine = new Flight(form, flushes.get(), true);
        if (flights.putIfAbsent(key, mine) != null) {
            return reader.get();
        }
        return fetch(key, Keys.bytes(key), mine, null, reader);
    }

    private long now() {
        return ticker.getAsLong();
    }

    /** Safe, because a value is returned only to reads in the form that decoded it. */
    @SuppressWarnings("unchecked")
    private static <V> @Nullable V value(Entry copy) {
        return (V) copy.value();
    }

    @SuppressWarnings("unchecked")
    private static <V> CompletionStage<@Nullable V> result(Flight flight) {
        return flight.result.thenApply(value -> (V) value);
    }

    private boolean serves(Entry copy, Form<?> form, long now_ns, Duration localTtl) {
        Tracking.Ticket ticket = copy.ticket();
        return copy.form() == form
                && copy.isLive(now_ns)
                && now_ns - copy.seen_ns() <= nanos(localTtl)
                && (tracking == null || ticket != null && ticket.isGood(core.cluster()));
    }

    /** Longer durations than 292 years are unlimited. */
    private static long nanos(Duration duration) {
        boolean fits = duration.getSeconds() < Long.MAX_VALUE / 1_000_000_000 - 1;
        return fits ? duration.toNanos() : Long.MAX_VALUE;
    }

    private CompletionStage<ReadOperation<?>> fetch(
            String key,
            byte[] bytes,
            Flight flight,
            @Nullable Entry old,
            Supplier<CompletionStage<ReadOperation<?>>> reader) {
        Tracking told = tracking;
        CompletionStage<Tracking.@Nullable Ticket> ticket =
                told == null ? CompletableFuture.completedStage(null) : told.track(bytes);
        return ticket.exceptionally(failure -> null)
                .thenCompose(
                        good -> {
                            long asked_ns = now();
                            return reader.get()
                                    .whenComplete(
                                            (read, failure) ->
                                                    fetched(
                                                            key, flight, old, good, asked_ns, read,
                                                            failure));
                        });
    }

    /** Reads the value, or revalidates {@code old}. */
    private CompletionStage<ReadOperation<?>> read(byte[] key, @Nullable Entry old) {
        try {
            int wanted =
                    ReadOperation.FLAGS
                            | ReadOperation.VERSION
                            | ReadOperation.TTL
                            | core.cluster().alsoRead();
            long known = old == null ? 0 : old.version();
            Link from = old == null ? null : old.link();
            return core.cluster()
                    .<ReadOperation<?>>read(
                            key,
                            () ->
                                    new ReadOperation<ReadOperation<?>>(key, wanted, read -> read)
                                            .unless(known, from));
        } catch (CacheException e) {
            return CompletableFuture.failedStage(e);
        }
    }

    private void fetched(
            String key,
            Flight flight,
            @Nullable Entry old,
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
            Entry entry = entry(key, flight, old, ticket, asked_ns, read);
            keep(key, flight, entry, !flight.leased || !read.won() && !read.stale());
            flight.result.complete(entry.value());
        } catch (CacheException e) {
            flights.remove(key, flight);
            flight.result.completeExceptionally(e);
        }
    }

    private static Entry entry(
            String key,
            Flight flight,
            @Nullable Entry old,
            Tracking.@Nullable Ticket ticket,
            long asked_ns,
            ReadOperation<?> read) {
        byte[] bytes = read.bytes();
        if (read.hit() && bytes == null && old != null) {
            return old.confirmed(asked_ns);
        }
        long ends_ns = Entry.FOREVER;
        if (ticket != null && ticket.ttl_ms() >= 0) {
            ends_ns = asked_ns + ticket.ttl_ms() * 1_000_000;
        } else if (read.hit() && read.ttl_s() != MetaLine.FOREVER) {
            // Servers round up, so the item may expire up to a second before its TTL in seconds.
            ends_ns = asked_ns + Math.max(0, read.ttl_s() - 1) * 1_000_000_000;
        }
        int weight = ENTRY_BYTES + key.length() + (bytes == null ? 0 : bytes.length);
        Object value = flight.form.apply(read);
        return new Entry(
                flight.form, value, read.version(), read.link(), asked_ns, ends_ns, weight, ticket);
    }

    private void keep(String key, Flight flight, Entry entry, boolean lasting) {
        Tracking.Ticket ticket = entry.ticket();
        boolean trusted =
                tracking == null
                        ? entry.value() != null
                        : ticket != null && ticket.isGood(core.cluster());
        boolean kept = trusted && lasting && (entry.value() != null || !flight.leased);
        flights.computeIfPresent(
                key,
                (same, registered) -> {
                    if (registered != flight) {
                        return registered;
                    }
                    if (kept && flight.flush == flushes.get()) {
                        copies.put(key, entry);
                    } else {
                        copies.invalidate(key);
                    }
                    return null;
                });
    }

    /** Drops the copy; the result of a read in progress is not kept. */
    public void forget(String key) {
        flights.remove(key);
        copies.invalidate(key);
    }

    /** The server sent an invalidation of the key. */
    void invalidated(String key) {
        metrics.invalidated();
        forget(key);
    }

    /**
     * A node reported that invalidations may have been lost. Drops the copies that are void because
     * of that and are not returned any more. A read in progress checks its own copy when it ends.
     */
    void voided() {
        copies.asMap()
                .values()
                .removeIf(copy -> copy.ticket() != null && copy.ticket().isVoid(core.cluster()));
    }

    /** Drops all copies; the results of reads in progress are not kept. */
    public void forgetAll() {
        flushes.incrementAndGet();
        flights.clear();
        copies.invalidateAll();
    }

    /** Returns the approximate number of copies. */
    public long size() {
        return copies.estimatedSize();
    }
}
