package cellar.client;

import cellar.client.internal.codec.JsonCodec;
import cellar.client.internal.codec.SpyCodec;
import cellar.client.internal.codec.WhalinCodec;
import java.nio.charset.StandardCharsets;

/** The codecs that come with the client. None uses Java's serialisation. */
public final class Codecs {
    private Codecs() {}

    /** Bytes as they are; a value that was handed out must not be changed. */
    public static Codec<byte[]> bytes() {
        return new Codec<>() {
            @Override
            public Encoded encode(byte[] value) {
                return new Encoded(value, 0);
            }

            @Override
            public byte[] decode(byte[] bytes, int flags) {
                return bytes;
            }

            @Override
            public boolean readsFlags() {
                return false;
            }
        };
    }

    /** Text in UTF-8. */
    public static Codec<String> string() {
        return new Codec<>() {
            @Override
            public Encoded encode(String value) {
                return new Encoded(value.getBytes(StandardCharsets.UTF_8), 0);
            }

            @Override
            public String decode(byte[] bytes, int flags) {
                return new String(bytes, StandardCharsets.UTF_8);
            }

            @Override
            public String decode(byte[] buffer, int offset, int length, int flags) {
                return new String(buffer, offset, length, StandardCharsets.UTF_8);
            }

            @Override
            public boolean readsFlags() {
                return false;
            }
        };
    }

    /** JSON by Jackson, which must be on the class path. */
    public static <T> Codec<T> json(Class<T> type) {
        return JsonCodec.of(type);
    }

    /**
     * Text, numbers, booleans, dates and bytes with spymemcached's flags, so that both clients read
     * each other's values; longer values are compressed as there. Serialised objects are refused.
     */
    public static Codec<Object> spymemcached() {
        return new SpyCodec();
    }

    /**
     * Text, numbers, booleans, dates and bytes with the flags of whalin's client, on which
     * memcache-client-forjava rests. Serialised objects are refused.
     */
    public static Codec<Object> whalin() {
        return new WhalinCodec();
    }
}
