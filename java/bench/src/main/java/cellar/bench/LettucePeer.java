package cellar.bench;

import io.lettuce.core.RedisClient;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.RedisCodec;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;

/** Lettuce, over Redis's protocol; text as it is, objects by Java's serialisation. */
final class LettucePeer implements Peer {
    private final RedisClient client;
    private final StatefulRedisConnection<String, Object> connection;

    LettucePeer(int port) {
        client = RedisClient.create("redis://127.0.0.1:" + port);
        connection = client.connect(new TextOrObject());
    }

    @Override
    public Object get(String key) {
        return connection.sync().get(key);
    }

    @Override
    public void set(String key, Object value) {
        connection.sync().set(key, value, SetArgs.Builder.ex(3600));
    }

    @Override
    public void getAsync(String key, Consumer<Object> done) {
        connection.async().get(key).whenComplete((value, failure) -> done.accept(value));
    }

    @Override
    public void close() {
        connection.close();
        client.shutdown();
    }

    /** A first byte tells text from objects. */
    private static final class TextOrObject implements RedisCodec<String, Object> {
        @Override
        public String decodeKey(ByteBuffer bytes) {
            return StandardCharsets.UTF_8.decode(bytes).toString();
        }

        @Override
        public ByteBuffer encodeKey(String key) {
            return ByteBuffer.wrap(key.getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public Object decodeValue(ByteBuffer bytes) {
            byte kind = bytes.get();
            byte[] rest = new byte[bytes.remaining()];
            bytes.get(rest);
            if (kind == 't') {
                return new String(rest, StandardCharsets.UTF_8);
            }
            try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(rest))) {
                return in.readObject();
            } catch (IOException | ClassNotFoundException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public ByteBuffer encodeValue(Object value) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            if (value instanceof String text) {
                bytes.write('t');
                bytes.writeBytes(text.getBytes(StandardCharsets.UTF_8));
                return ByteBuffer.wrap(bytes.toByteArray());
            }
            bytes.write('o');
            try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
                out.writeObject(value);
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
            return ByteBuffer.wrap(bytes.toByteArray());
        }
    }
}
