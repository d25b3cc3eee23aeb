package cellar.client;

import java.util.Arrays;

/**
 * Turns values into bytes with flags, and back.
 *
 * <p>Implementations are safe for use by many threads. Neither values nor bytes are ever null; a
 * value that was handed out may be kept in the local cache, so a codec of mutable values is not to
 * be combined with one unless callers leave the values alone.
 *
 * @param <T> type of the values
 */
public interface Codec<T> {
    /**
     * Returns the bytes and flags of {@code value}.
     *
     * @throws RuntimeException if the value has no such form; reported as {@link
     *     CacheException.Coding}
     */
    Encoded encode(T value);

    /**
     * Returns the value of {@code bytes}, which belong to the callee from now on.
     *
     * @param flags the 32 bits stored with the value, as they came
     * @throws RuntimeException if the bytes are none of a value; reported as {@link
     *     CacheException.Coding}
     */
    T decode(byte[] bytes, int flags);

    /**
     * Returns the value of {@code length} bytes of {@code buffer} from {@code offset} on, which
     * belong to the caller and change after this call.
     *
     * <p>A codec that needs no array of its own can spare a copy here; otherwise the bytes are
     * copied and given to {@link #decode(byte[], int)}.
     *
     * @throws RuntimeException as that does
     */
    default T decode(byte[] buffer, int offset, int length, int flags) {
        return decode(Arrays.copyOfRange(buffer, offset, offset + length), flags);
    }

    /** Whether {@link #decode(byte[], int)} looks at the flags; if not, they are not asked for. */
    default boolean readsFlags() {
        return true;
    }

    /**
     * What the server stores.
     *
     * @param bytes the value; not changed by anybody from now on
     * @param flags 32 bits that belong to the codec, kept beside the value
     */
    @SuppressWarnings("ArrayRecordComponent")
    record Encoded(byte[] bytes, int flags) {}
}
