package cellar.client;

import java.util.Arrays;

/**
 * Encodes values as bytes with flags, and decodes them.
 *
 * <p>Implementations are safe for use by many threads. Values and bytes are never null. A local
 * cache returns the same object to many callers. With a codec of mutable values, use one only if
 * callers do not modify the values.
 *
 * @param <T> type of the values
 */
public interface Codec<T> {
    /**
     * Returns the bytes and flags of {@code value}.
     *
     * @throws RuntimeException if the value cannot be encoded; reported as {@link
     *     CacheException.Coding}
     */
    Encoded encode(T value);

    /**
     * Returns the value of {@code bytes}. The codec may keep or change the array.
     *
     * @param flags the 32 bits stored with the value
     * @throws RuntimeException if the bytes cannot be decoded; reported as {@link
     *     CacheException.Coding}
     */
    T decode(byte[] bytes, int flags);

    /**
     * Returns the value of {@code length} bytes of {@code buffer} from {@code offset} on. The
     * caller owns the buffer and changes it after this call.
     *
     * <p>A codec that can decode a part of an array should override this method: it saves a copy.
     * By default the bytes are copied for {@link #decode(byte[], int)}.
     *
     * @throws RuntimeException as {@link #decode(byte[], int)} does
     */
    default T decode(byte[] buffer, int offset, int length, int flags) {
        return decode(Arrays.copyOfRange(buffer, offset, offset + length), flags);
    }

    /** Whether {@link #decode(byte[], int)} uses the flags; if not, they are not requested. */
    default boolean readsFlags() {
        return true;
    }

    /**
     * The bytes and flags that the server stores.
     *
     * @param bytes the value; must not be modified any more
     * @param flags 32 bits for the codec, stored with the value
     */
    @SuppressWarnings("ArrayRecordComponent")
    record Encoded(byte[] bytes, int flags) {}
}
