package cellar.client.internal.codec;

import cellar.client.CacheException;
import cellar.client.Codec;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.util.List;

/** Values as JSON, by Jackson with its defaults and the modules found on the class path. */
public final class JsonCodec<T> implements Codec<T> {
    static final JsonMapper MAPPER = JsonMapper.builder().findAndAddModules().build();

    private final JavaType type;
    private final ObjectWriter writer;
    private final ObjectReader reader;

    private JsonCodec(JavaType type) {
        this.type = type;
        writer = MAPPER.writerFor(type);
        reader = MAPPER.readerFor(type);
    }

    /** Returns the codec of {@code type}. */
    public static <T> JsonCodec<T> of(Class<T> type) {
        return new JsonCodec<>(MAPPER.constructType(type));
    }

    /** Returns the codec of lists of {@code type}. */
    public static <T> JsonCodec<List<T>> listOf(Class<T> type) {
        return new JsonCodec<>(MAPPER.getTypeFactory().constructCollectionType(List.class, type));
    }

    @Override
    public Encoded encode(T value) {
        try {
            return new Encoded(writer.writeValueAsBytes(value), 0);
        } catch (JsonProcessingException e) {
            throw new CacheException.Coding("not to be written as JSON: " + type, e);
        }
    }

    @Override
    public T decode(byte[] bytes, int flags) {
        return decode(bytes, 0, bytes.length, flags);
    }

    @Override
    public T decode(byte[] buffer, int offset, int length, int flags) {
        try {
            return reader.readValue(buffer, offset, length);
        } catch (IOException e) {
            throw new CacheException.Coding("not the JSON of " + type, e);
        }
    }

    /** Returns the value of {@code tree}. */
    T decode(JsonNode tree) {
        try {
            return reader.readValue(tree);
        } catch (IOException e) {
            throw new CacheException.Coding("not the JSON of " + type, e);
        }
    }

    @Override
    public boolean readsFlags() {
        return false;
    }
}
