package cellar.client.internal.codec;

import cellar.client.CacheException;
import cellar.client.Codec;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Values of several declared classes as JSON: {@code {"type":"user","value":{...}}}.
 *
 * <p>The name identifies a declared class and is never a class name, so the content of the cache
 * cannot select another class.
 */
public final class JsonTypesCodec implements Codec<Object> {
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_.-]+");

    private final Map<String, JsonCodec<?>> byName = new HashMap<>();
    private final Map<Class<?>, String> names = new HashMap<>();

    /**
     * Creates the codec of {@code types}, by name.
     *
     * @throws IllegalArgumentException if a name is not a word, or a class has two names
     */
    public JsonTypesCodec(Map<String, ? extends Class<?>> types) {
        types.forEach(
                (name, type) -> {
                    if (!NAME.matcher(name).matches()) {
                        throw new IllegalArgumentException("not a name of a type: " + name);
                    }
                    if (names.put(type, name) != null) {
                        throw new IllegalArgumentException(type.getName() + " has two names");
                    }
                    byName.put(name, JsonCodec.of(type));
                });
    }

    @Override
    public Encoded encode(Object value) {
        String name = names.get(value.getClass());
        if (name == null) {
            throw new CacheException.Coding(
                    value.getClass().getName() + " is none of the declared types", null);
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.writeBytes(ascii("{\"type\":\"" + name + "\",\"value\":"));
        bytes.writeBytes(encode(name, value));
        bytes.writeBytes(ascii("}"));
        return new Encoded(bytes.toByteArray(), 0);
    }

    /** Encodes {@code value}, of the class with this name. */
    @SuppressWarnings("unchecked")
    private byte[] encode(String name, Object value) {
        return ((JsonCodec<Object>) byName.get(name)).encode(value).bytes();
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public Object decode(byte[] bytes, int flags) {
        try {
            JsonNode whole = JsonCodec.MAPPER.readTree(bytes);
            String name = whole.path("type").asText();
            JsonCodec<?> codec = byName.get(name);
            if (codec == null || !whole.has("value")) {
                throw new CacheException.Coding("no value of a declared type: " + name, null);
            }
            return codec.decode(whole.get("value"));
        } catch (IOException e) {
            throw new CacheException.Coding("not the JSON of a declared type", e);
        }
    }

    @Override
    public boolean readsFlags() {
        return false;
    }
}
