package cellar.client.internal.codec;

import cellar.client.CacheException;
import cellar.client.Codec;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;

/** Values as JSON, by Jackson with its defaults and the modules found on the class path. */
public final class JsonCodec {
    private static final JsonMapper MAPPER = JsonMapper.builder().findAndAddModules().build();

    private JsonCodec() {}

    /** The codec of {@code type}. */
    public static <T> Codec<T> of(Class<T> type) {
        ObjectWriter writer = MAPPER.writerFor(type);
        ObjectReader reader = MAPPER.readerFor(type);
        return new Codec<>() {
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

            @Override
            public boolean readsFlags() {
                return false;
            }
        };
    }
}
