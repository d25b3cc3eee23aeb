package cellar.client.testing;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;

/** Serialised objects, which anyone can store under a key. */
public final class Serialised {
    private Serialised() {}

    /** Returns {@code value} in Java serialisation. */
    public static byte[] bytes(Object value) throws IOException {
        ByteArrayOutputStream target = new ByteArrayOutputStream();
        try (ObjectOutputStream objects = new ObjectOutputStream(target)) {
            objects.writeObject(value);
        }
        return target.toByteArray();
    }
}
