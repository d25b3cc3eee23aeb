package cellar.client.internal.codec;

import cellar.client.CacheException;
import cellar.client.Codec;
import cellar.client.JavaClasses;
import cellar.client.WhalinOptions;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import org.jspecify.annotations.Nullable;

/**
 * The flags of whalin's client: one bit for each type, 2 for compressed, 8 for serialised. Its
 * version 3.0 writes 0 for serialised, and reads both.
 *
 * <p>Numbers are big-endian in full length. Source: Memcached-Java-Client 2.0.1 and 3.0.2,
 * NativeHandler, MemCachedClient.
 */
public final class WhalinCodec implements Codec<Object> {
    private static final int COMPRESSED = 2;
    private static final int BYTE = 1;
    private static final int INT = 4;
    private static final int SERIALISED = 8;
    private static final int CHARACTER = 16;
    private static final int TEXT = 32;
    private static final int BUFFER = 64;
    private static final int FLOAT = 128;
    private static final int SHORT = 256;
    private static final int DOUBLE = 512;
    private static final int DATE = 1024;
    private static final int BUILDER = 2048;
    private static final int BYTES = 4096;
    private static final int BOOLEAN = 8192;
    private static final int LONG = 16384;

    private final @Nullable JavaObjects objects;
    private final int compressedFrom;

    /** Creates the codec with these options. */
    public WhalinCodec(WhalinOptions options) {
        JavaClasses classes = options.javaClasses();
        objects = classes == null ? null : new JavaObjects(classes);
        compressedFrom = options.compressedFrom();
    }

    @Override
    public Encoded encode(Object value) {
        Encoded encoded = number(value);
        if (encoded == null) {
            encoded = text(value);
        }
        if (encoded == null) {
            encoded = object(value);
        }
        return encoded.bytes().length < compressedFrom ? encoded : compressed(encoded);
    }

    private Encoded object(Object value) {
        if (objects == null) {
            throw new CacheException.Coding(
                    value.getClass().getName() + " is not written without java-classes", null);
        }
        return new Encoded(objects.write(value), SERIALISED);
    }

    private static Encoded compressed(Encoded plain) {
        byte[] bytes = Gzip.compress(plain.bytes());
        return bytes.length < plain.bytes().length
                ? new Encoded(bytes, plain.flags() | COMPRESSED)
                : plain;
    }

    private static @Nullable Encoded number(Object value) {
        if (value instanceof Integer number) {
            return four(number, INT);
        } else if (value instanceof Long number) {
            return eight(number, LONG);
        } else if (value instanceof Date date) {
            return eight(date.getTime(), DATE);
        } else if (value instanceof Character character) {
            return four(character, CHARACTER);
        } else if (value instanceof Short number) {
            return four(number, SHORT);
        } else if (value instanceof Float number) {
            return four(Float.floatToIntBits(number), FLOAT);
        } else if (value instanceof Double number) {
            return eight(Double.doubleToLongBits(number), DOUBLE);
        } else if (value instanceof Byte number) {
            return new Encoded(new byte[] {number}, BYTE);
        } else if (value instanceof Boolean truth) {
            return new Encoded(new byte[] {(byte) (truth ? 1 : 0)}, BOOLEAN);
        }
        return null;
    }

    private static @Nullable Encoded text(Object value) {
        if (value instanceof byte[] bytes) {
            return new Encoded(bytes, BYTES);
        } else if (value instanceof String text) {
            return new Encoded(text.getBytes(StandardCharsets.UTF_8), TEXT);
        } else if (value instanceof StringBuilder text) {
            return new Encoded(text.toString().getBytes(StandardCharsets.UTF_8), BUILDER);
        } else if (value instanceof StringBuffer text) {
            return new Encoded(text.toString().getBytes(StandardCharsets.UTF_8), BUFFER);
        }
        return null;
    }

    private static Encoded four(int number, int flags) {
        return new Encoded(ByteBuffer.allocate(4).putInt(number).array(), flags);
    }

    private static Encoded eight(long number, int flags) {
        return new Encoded(ByteBuffer.allocate(8).putLong(number).array(), flags);
    }

    @Override
    public Object decode(byte[] stored, int flags) {
        byte[] bytes = (flags & COMPRESSED) != 0 ? Gzip.decompress(stored) : stored;
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return switch (flags & ~COMPRESSED) {
            case BYTE -> buffer.get();
            case BOOLEAN -> buffer.get() == 1;
            case INT -> buffer.getInt();
            case LONG -> buffer.getLong();
            case CHARACTER -> (char) buffer.getInt();
            case SHORT -> (short) buffer.getInt();
            case FLOAT -> Float.intBitsToFloat(buffer.getInt());
            case DOUBLE -> Double.longBitsToDouble(buffer.getLong());
            case DATE -> new Date(buffer.getLong());
            case TEXT -> new String(bytes, StandardCharsets.UTF_8);
            case BUILDER -> new StringBuilder(new String(bytes, StandardCharsets.UTF_8));
            case BUFFER -> new StringBuffer(new String(bytes, StandardCharsets.UTF_8));
            case BYTES -> bytes;
            case 0, SERIALISED -> object(bytes);
            default -> throw new CacheException.Coding("unknown flags " + flags, null);
        };
    }

    private Object object(byte[] bytes) {
        if (isDigits(bytes)) {
            throw new CacheException.Coding("a counter is read by getCounter, not by get", null);
        }
        if (objects == null) {
            throw new CacheException.Coding(
                    "a serialised object is not read without java-classes", null);
        }
        return objects.read(bytes);
    }

    /** A server's counter has no flags; a serialised object begins with 0xaced. */
    private static boolean isDigits(byte[] bytes) {
        for (byte b : bytes) {
            if (b < '0' || b > '9') {
                return false;
            }
        }
        return bytes.length > 0;
    }
}
