package cellar.client.spring;

import cellar.client.CacheException;
import cellar.client.Codec;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.jspecify.annotations.NullMarked;
import org.springframework.cache.support.NullValue;

/**
 * Adds an encoding of null to another codec.
 *
 * <p>It begins with a zero byte, which neither JSON nor ordinary text does.
 */
@NullMarked
final class NullCodec implements Codec<Object> {
    private static final byte[] NULL = "\0null\0".getBytes(StandardCharsets.US_ASCII);

    private final String cache;
    private final Codec<Object> codec;

    @SuppressWarnings("unchecked") // A value of another class is reported with a clear message.
    NullCodec(String cache, Codec<?> codec) {
        this.cache = cache;
        this.codec = (Codec<Object>) codec;
    }

    @Override
    public Encoded encode(Object value) {
        if (value instanceof NullValue) {
            return new Encoded(NULL, 0);
        }
        try {
            return codec.encode(value);
        } catch (ClassCastException e) {
            throw new CacheException.Coding(
                    "the codec of the cache "
                            + cache
                            + " takes no "
                            + value.getClass().getName()
                            + "; declare the type of the cache",
                    e);
        }
    }

    @Override
    public Object decode(byte[] bytes, int flags) {
        return Arrays.equals(bytes, NULL) ? NullValue.INSTANCE : codec.decode(bytes, flags);
    }

    @Override
    public Object decode(byte[] buffer, int offset, int length, int flags) {
        boolean isNull = Arrays.equals(buffer, offset, offset + length, NULL, 0, NULL.length);
        return isNull ? NullValue.INSTANCE : codec.decode(buffer, offset, length, flags);
    }

    @Override
    public boolean readsFlags() {
        return codec.readsFlags();
    }
}
