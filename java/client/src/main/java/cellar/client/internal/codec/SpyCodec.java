package cellar.client.internal.codec;

import cellar.client.CacheException;
import cellar.client.Codec;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Date;

/**
 * spymemcached's flags: the type in bits 8 to 15, 1 for serialised, 2 for compressed.
 *
 * <p>Numbers are big-endian without leading zero bytes. Source: spymemcached 2.12.3,
 * SerializingTranscoder.
 */
public final class SpyCodec implements Codec<Object> {
    private static final int SERIALISED = 1;
    private static final int COMPRESSED = 2;
    private static final int TYPES = 0xff00;
    private static final int TEXT = 0;
    private static final int BOOLEAN = 1 << 8;
    private static final int INT = 2 << 8;
    private static final int LONG = 3 << 8;
    private static final int DATE = 4 << 8;
    private static final int BYTE = 5 << 8;
    private static final int FLOAT = 6 << 8;
    private static final int DOUBLE = 7 << 8;
    private static final int BYTES = 8 << 8;
    private static final int COMPRESSED_FROM_BYTES = 16384;

    @Override
    public Encoded encode(Object value) {
        Encoded plain = plain(value);
        if (plain.bytes().length > COMPRESSED_FROM_BYTES) {
            byte[] compressed = Gzip.compress(plain.bytes());
            if (compressed.length < plain.bytes().length) {
                return new Encoded(compressed, plain.flags() | COMPRESSED);
            }
        }
        return plain;
    }

    private static Encoded plain(Object value) {
        if (value instanceof String text) {
            return new Encoded(text.getBytes(StandardCharsets.UTF_8), TEXT);
        } else if (value instanceof Long number) {
            return new Encoded(packed(number, 8), LONG);
        } else if (value instanceof Integer number) {
            return new Encoded(packed(number, 4), INT);
        } else if (value instanceof Boolean truth) {
            return new Encoded(new byte[] {(byte) (truth ? '1' : '0')}, BOOLEAN);
        } else if (value instanceof Date date) {
            return new Encoded(packed(date.getTime(), 8), DATE);
        } else if (value instanceof Byte number) {
            return new Encoded(new byte[] {number}, BYTE);
        } else if (value instanceof Float number) {
            return new Encoded(packed(Float.floatToRawIntBits(number), 4), FLOAT);
        } else if (value instanceof Double number) {
            return new Encoded(packed(Double.doubleToRawLongBits(number), 8), DOUBLE);
        } else if (value instanceof byte[] bytes) {
            return new Encoded(bytes, BYTES);
        }
        throw new CacheException.Coding("no flags for " + value.getClass(), null);
    }

    private static byte[] packed(long number, int size) {
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) {
            bytes[size - 1 - i] = (byte) (number >> 8 * i);
        }
        int zeros = 0;
        while (zeros < size && bytes[zeros] == 0) {
            zeros++;
        }
        return Arrays.copyOfRange(bytes, zeros, size);
    }

    @Override
    public Object decode(byte[] stored, int flags) {
        if ((flags & SERIALISED) != 0) {
            throw new CacheException.Coding("a serialised object is not read", null);
        }
        byte[] bytes = (flags & COMPRESSED) != 0 ? Gzip.decompress(stored) : stored;
        return switch (flags & TYPES) {
            case TEXT -> new String(bytes, StandardCharsets.UTF_8);
            case BOOLEAN -> bytes.length == 1 && bytes[0] == '1';
            case INT -> (int) number(bytes);
            case LONG -> number(bytes);
            case DATE -> new Date(number(bytes));
            case BYTE -> (byte) number(bytes);
            case FLOAT -> Float.intBitsToFloat((int) number(bytes));
            case DOUBLE -> Double.longBitsToDouble(number(bytes));
            case BYTES -> bytes;
            default -> throw new CacheException.Coding("unknown flags " + flags, null);
        };
    }

    private static long number(byte[] bytes) {
        if (bytes.length > 8) {
            throw new CacheException.Coding("a number of " + bytes.length + " bytes", null);
        }
        long number = 0;
        for (byte b : bytes) {
            number = number << 8 | b & 0xff;
        }
        return number;
    }
}
