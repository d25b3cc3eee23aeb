package cellar.client;

import cellar.client.internal.codec.JsonCodec;
import cellar.client.internal.codec.JsonTypesCodec;
import cellar.client.internal.codec.SpyCodec;
import cellar.client.internal.codec.WhalinCodec;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** The codecs of the client. Java serialisation is limited to declared classes. */
public final class Codecs {
    private static final String JSON_ARTIFACT = "com.fasterxml.jackson.core:jackson-databind";

    private Codecs() {}

    /** Returns a codec of bytes without conversion; callers must not modify a returned array. */
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

    /** Returns a codec of text in UTF-8. */
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

    /**
     * Returns a codec of JSON. It needs Jackson on the class path.
     *
     * @throws CacheException.Configuration if Jackson is missing
     */
    public static <T> Codec<T> json(Class<T> type) {
        return needing(JSON_ARTIFACT, () -> JsonCodec.of(type));
    }

    /** Returns a codec of JSON lists of {@code type}. */
    public static <T> Codec<List<T>> jsonList(Class<T> type) {
        return needing(JSON_ARTIFACT, () -> JsonCodec.listOf(type));
    }

    /**
     * Returns a codec of JSON for several classes. Each value is stored with the name that {@code
     * types} gives its class. Values of other classes and unknown names are rejected.
     *
     * @throws IllegalArgumentException if a name is not a word, or a class has two names
     */
    public static Codec<Object> jsonTypes(Map<String, ? extends Class<?>> types) {
        return needing(JSON_ARTIFACT, () -> new JsonTypesCodec(types));
    }

    private static <T> T needing(String artifact, Supplier<T> made) {
        try {
            return made.get();
        } catch (NoClassDefFoundError e) {
            throw new CacheException.Configuration(
                    "this needs " + artifact + " on the class path: no class " + e.getMessage(), e);
        }
    }

    /**
     * Returns a codec of text, numbers, booleans, dates and bytes with the flags of spymemcached,
     * so that both clients read each other's values. Long values are compressed as in spymemcached.
     * Serialised objects are rejected.
     */
    public static Codec<Object> spymemcached() {
        return new SpyCodec();
    }

    /**
     * Returns a codec of text, numbers, booleans, dates and bytes with the flags of whalin's
     * client, which memcache-client-forjava is based on. Serialised objects are rejected.
     */
    public static Codec<Object> whalin() {
        return whalin(WhalinOptions.plain());
    }

    /**
     * Returns the same codec, also with objects of declared classes, serialised as by whalin's
     * client.
     */
    public static Codec<Object> whalin(WhalinOptions options) {
        return new WhalinCodec(options);
    }
}
