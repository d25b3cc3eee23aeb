package cellar.client.internal;

import cellar.client.CacheException;
import cellar.client.CasOutcome;
import cellar.client.Codec;
import cellar.client.internal.cluster.Change;
import cellar.client.internal.cluster.Request;
import cellar.client.internal.wire.CountOperation;
import cellar.client.internal.wire.DeleteOperation;
import cellar.client.internal.wire.Expiry;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.Operation;
import cellar.client.internal.wire.ReadManyOperation;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation;
import cellar.client.internal.wire.StoreOperation.Mode;
import cellar.client.internal.wire.TouchOperation;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Makes operations of what a caller asks for, and tells what they mean for other copies. */
final class Requests<V> {
    private final Codec<V> codec;

    Requests(Codec<V> codec) {
        this.codec = codec;
    }

    /** The value of a read, null on a miss. */
    @Nullable V value(ReadOperation<?> read) {
        byte[] received = read.received();
        if (received != null) {
            return isPlaceholder(read) ? null : decode(received, read);
        }
        byte[] bytes = read.bytes();
        return bytes == null || isPlaceholder(read) ? null : decode(bytes, read.flags());
    }

    /** Whether the item is only there so that one caller can be told to load it. */
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

    ReadManyOperation<V> readMany(List<String> keys) {
        List<byte[]> bytes = keys.stream().map(Keys::bytes).toList();
        return new ReadManyOperation<>(keys, bytes, this::decode);
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

    /** Behind or before what is there; the TTL stays. */
    Request<CasOutcome> extend(byte[] key, V value, Mode mode) {
        byte[] bytes = encode(value).bytes();
        Supplier<Operation<?>> same = () -> new StoreOperation(key, bytes, 0, 0, mode, 0);
        return new Request<>(
                key,
                () -> new StoreOperation(key, bytes, 0, 0, mode, 0),
                false,
                stored(new Change(false, false, same)));
    }

    private static Request<CasOutcome> store(
            byte[] key, byte[] bytes, int flags, long expiry, Mode mode, long version) {
        return new Request<>(
                key,
                () -> new StoreOperation(key, bytes, flags, expiry, mode, version),
                mode == Mode.SET,
                stored(set(key, bytes, flags, expiry)));
    }

    private static BiFunction<Operation<CasOutcome>, CasOutcome, @Nullable Change> stored(
            Change change) {
        return (operation, outcome) -> outcome == CasOutcome.STORED ? change : null;
    }

    private static Change set(byte[] key, byte[] bytes, int flags, long expiry) {
        return new Change(
                true, false, () -> new StoreOperation(key, bytes, flags, expiry, Mode.SET, 0));
    }

    static Request<Boolean> delete(byte[] key) {
        return new Request<>(
                key, () -> new DeleteOperation(key, 0), true, (operation, found) -> gone(key));
    }

    static Request<Boolean> invalidate(byte[] key, Duration stale) {
        long stale_s = Math.max(1, Expiry.seconds(stale));
        return new Request<>(
                key,
                () -> new DeleteOperation(key, stale_s),
                true,
                (operation, found) -> gone(key));
    }

    private static Change gone(byte[] key) {
        return new Change(true, true, () -> new DeleteOperation(key, 0));
    }

    static Request<Boolean> touch(byte[] key, Duration ttl) {
        long expiry = Expiry.seconds(ttl);
        Change touch = new Change(false, false, () -> new TouchOperation(key, expiry));
        return new Request<>(
                key,
                () -> new TouchOperation(key, expiry),
                true,
                (operation, found) -> found ? touch : null);
    }

    static Request<CasOutcome> storeNumber(byte[] key, long number, Duration ttl, Mode mode) {
        byte[] digits = Long.toString(notNegative(number)).getBytes(StandardCharsets.US_ASCII);
        return store(key, digits, 0, Expiry.seconds(ttl), mode, 0);
    }

    /** Other copies get the number that came out, not the step: no step is taken twice. */
    static Request<@Nullable Long> count(
            byte[] key, long by, boolean down, long initial, Duration ttl) {
        long step = notNegative(by);
        long expiry = initial < 0 ? 0 : Expiry.seconds(ttl);
        return new Request<>(
                key,
                () -> new CountOperation(key, step, down, initial, expiry),
                false,
                (operation, number) ->
                        number == null ? null : counted(key, number, (CountOperation) operation));
    }

    /** A copy whose time is not known would stay for ever, so there is none then. */
    private static Change counted(byte[] key, long number, CountOperation counted) {
        return counted.knowsTtl()
                ? number(key, number, counted.ttl_s())
                : new Change(true, false, () -> new DeleteOperation(key, 0));
    }

    private static Change number(byte[] key, long number, long ttl_s) {
        byte[] digits = Long.toString(number).getBytes(StandardCharsets.US_ASCII);
        return set(key, digits, 0, Expiry.seconds(ttl_s));
    }

    static long notNegative(long number) {
        if (number < 0) {
            throw new IllegalArgumentException("counters and steps are not negative");
        }
        return number;
    }
}
