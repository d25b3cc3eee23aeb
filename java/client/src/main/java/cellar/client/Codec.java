package cellar.client;

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

    /** Whether {@link #decode} looks at the flags; if not, they are not asked for. */
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
