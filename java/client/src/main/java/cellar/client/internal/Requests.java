package cellar.client.internal;

import cellar.client.CacheException;
import cellar.client.CasOutcome;
import cellar.client.Codec;
import cellar.client.internal.cluster.Edit;
import cellar.client.internal.cluster.Edit.Decision;
import cellar.client.internal.cluster.Found;
import cellar.client.internal.cluster.Item;
import cellar.client.internal.cluster.Request;
import cellar.client.internal.wire.CountOperation;
import cellar.client.internal.wire.DeleteOperation;
import cellar.client.internal.wire.Expiry;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.Mark.Kind;
import cellar.client.internal.wire.ReadManyOperation;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation;
import cellar.client.internal.wire.StoreOperation.Mode;
import cellar.client.internal.wire.TouchOperation;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Makes requests from calls: the operation for one node, and the edit for replicated nodes. */
public final class Requests<V> {
    private final Codec<V> codec;

    Requests(Codec<V> codec) {
        this.codec = codec;
    }

    /** Returns the value of a read, null on a miss. */
    @Nullable V value(ReadOperation<?> read) {
        byte[] received = read.received();
        if (received != null) {
            return isPlaceholder(read) ? null : decode(received, read);
        }
        byte[] bytes = read.bytes();
        return bytes == null || isPlaceholder(read) ? null : decode(bytes, read.flags());
    }

    /** Whether the item is the empty one that a lease creates on a miss. */
    static boolean isPlaceholder(ReadOperation<?> read) {
        boolean leased = (read.won() || read.waiting()) && !read.stale();
        boolean there = read.bytes() != null || read.received() != null;
        return leased && there && read.size_bytes() == 0;
    }

    Codec.Encoded encode(V value) {
        try {
            return codec.encode(value);
        } catch (CacheException e) {
            throw e;
        } catch (RuntimeException e) {
            throw new CacheException.Coding("a value cannot be encoded", e);
        }
    }

    private V decode(byte[] received, ReadOperation<?> read) {
        return decoded(
                () -> codec.decode(received, read.receivedAt(), read.size_bytes(), read.flags()));
    }

    ReadManyOperation<V> readMany(List<String> keys, boolean marked) {
        List<byte[]> bytes = keys.stream().map(Keys::bytes).toList();
        return new ReadManyOperation<>(keys, bytes, this::decode, marked);
    }

    private V decode(byte[] bytes, int flags) {
        return decoded(() -> codec.decode(bytes, flags));
    }

    private static <V> V decoded(Supplier<V> decode) {
        try {
            return decode.get();
        } catch (CacheException e) {
            throw e;
        } catch (RuntimeException e) {
            throw new CacheException.Coding("a value cannot be decoded", e);
        }
    }

    Request<CasOutcome> store(byte[] key, V value, Duration ttl, Mode mode, long version) {
        Codec.Encoded encoded = encode(value);
        long expiry = Expiry.seconds(ttl);
        return store(key, encoded.bytes(), encoded.flags(), expiry, mode, version);
    }

    /** Appends or prepends to the item; the TTL stays. */
    Request<CasOutcome> extend(byte[] key, V value, Mode mode) {
        byte[] bytes = encode(value).bytes();
        return new Request<>(
                key,
                () -> new StoreOperation(key, bytes, 0, 0, mode, 0),
                new Edit.Decide<>(found -> extended(found.live(), bytes, mode), false, false));
    }

    private static Decision<CasOutcome> extended(@Nullable Item there, byte[] more, Mode mode) {
        if (there == null) {
            return new Decision<>(null, CasOutcome.CHANGED);
        }
        byte[] first = mode == Mode.APPEND ? there.value() : more;
        byte[] second = mode == Mode.APPEND ? more : there.value();
        byte[] whole = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, whole, first.length, second.length);
        return new Decision<>(
                Item.of(there.kind(), whole, there.flags(), there.expiry()), CasOutcome.STORED);
    }

    private static Request<CasOutcome> store(
            byte[] key, byte[] bytes, int flags, long expiry, Mode mode, long version) {
        Item item = Item.of(Kind.VALUE, bytes, flags, expiry);
        return new Request<>(
                key,
                () -> new StoreOperation(key, bytes, flags, expiry, mode, version),
                mode == Mode.SET
                        ? new Edit.Put<>(item, CasOutcome.STORED)
                        : new Edit.Decide<>(
                                found -> stored(found, item, mode, version), false, false));
    }

    /** Decides whether {@code item} may replace the item found. */
    private static Decision<CasOutcome> stored(Found found, Item item, Mode mode, long version) {
        boolean there = found.live() != null;
        boolean fits =
                switch (mode) {
                    case ADD -> !there;
                    case REPLACE -> there;
                    default -> there && found.version() == version;
                };
        if (fits) {
            return new Decision<>(item, CasOutcome.STORED);
        }
        boolean missing = !there && mode == Mode.CAS;
        return new Decision<>(null, missing ? CasOutcome.MISSING : CasOutcome.CHANGED);
    }

    static Request<Boolean> delete(byte[] key) {
        return new Request<>(
                key,
                () -> new DeleteOperation(key, 0),
                new Edit.Decide<>(Requests::removed, true, true));
    }

    /** Deletes the item if it still has {@code version}. */
    static Request<Boolean> delete(byte[] key, long version) {
        return new Request<>(
                key,
                () -> new DeleteOperation(key, 0, version),
                new Edit.Decide<>(
                        found ->
                                found.version() == version
                                        ? removed(found)
                                        : new Decision<>(null, false),
                        false,
                        false));
    }

    /**
     * Stores a tombstone even if there is no item, because another node may still have the item.
     */
    private static Decision<Boolean> removed(Found found) {
        Item there = found.item();
        boolean gone = there != null && there.kind() == Kind.GONE;
        return new Decision<>(gone ? null : Item.gone(), found.live() != null);
    }

    static Request<Boolean> invalidate(byte[] key, Duration stale) {
        long stale_s = Math.max(1, Expiry.seconds(stale));
        return new Request<>(
                key,
                () -> new DeleteOperation(key, stale_s),
                new Edit.Decide<>(found -> again(found.live(), Kind.STALE, stale_s), true, true));
    }

    static Request<Boolean> touch(byte[] key, Duration ttl) {
        long expiry = Expiry.seconds(ttl);
        return new Request<>(
                key,
                () -> new TouchOperation(key, expiry),
                new Edit.Decide<>(
                        found -> {
                            Item there = found.live();
                            return again(there, there == null ? Kind.VALUE : there.kind(), expiry);
                        },
                        true,
                        false));
    }

    private static Decision<Boolean> again(@Nullable Item there, Kind kind, long expiry) {
        return there == null
                ? new Decision<>(null, false)
                : new Decision<>(Item.of(kind, there.value(), there.flags(), expiry), true);
    }

    static Request<CasOutcome> storeNumber(byte[] key, long number, Duration ttl, Mode mode) {
        byte[] digits = Long.toString(notNegative(number)).getBytes(StandardCharsets.US_ASCII);
        return store(key, digits, 0, Expiry.seconds(ttl), mode, 0);
    }

    static Request<@Nullable Long> count(
            byte[] key, long by, boolean down, long initial, Duration ttl) {
        long step = notNegative(by);
        long expiry = initial < 0 ? 0 : Expiry.seconds(ttl);
        return new Request<>(
                key,
                () -> new CountOperation(key, step, down, initial, expiry),
                new Edit.Count(step, down, initial, expiry));
    }

    static long notNegative(long number) {
        if (number < 0) {
            throw new IllegalArgumentException("counters and steps are not negative");
        }
        return number;
    }
}
