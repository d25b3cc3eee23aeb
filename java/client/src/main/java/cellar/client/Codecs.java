package cellar.client;

import cellar.client.internal.codec.JsonCodec;
import cellar.client.internal.codec.JsonTypesCodec;
import cellar.client.internal.codec.SpyCodec;
import cellar.client.internal.codec.WhalinCodec;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** The codecs that come with the client. Java's serialisation is for declared classes only. */
public final class Codecs {
    private static final String JSON_ARTIFACT = "com.fasterxml.jackson.core:jackson-databind";

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

    /**
     * JSON by Jackson, which must be on the class path.
     *
     * @throws CacheException.Configuration if it is not
     */
    public static <T> Codec<T> json(Class<T> type) {
        return needing(JSON_ARTIFACT, () -> JsonCodec.of(type));
    }

    /** The same for lists of {@code type}. */
    public static <T> Codec<List<T>> jsonList(Class<T> type) {
        return needing(JSON_ARTIFACT, () -> JsonCodec.listOf(type));
    }

    /**
     * The same for values of several classes, each written with the name that it has here. A value
     * of another class is refused, and so is a name that is not declared.
     *
     * @throws IllegalArgumentException if a name is no word, or a class has two of them
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
        return whalin(WhalinOptions.plain());
    }

    /** The same, also with objects of declared classes, as that client serialises them. */
    public static Codec<Object> whalin(WhalinOptions options) {
        return new WhalinCodec(options);
    }
}
