package cellar.client.internal.wire;

import java.nio.charset.StandardCharsets;

/** Converts keys to bytes. */
public final class Keys {
    /** The length limit of a key in bytes. */
    public static final int KEY_BYTES_MAX = 250;

    private Keys() {}

    /**
     * Returns the bytes of a key.
     *
     * @throws IllegalArgumentException if the protocol does not allow the key
     */
    public static byte[] bytes(String key) {
        byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
        if (bytes.length == 0 || bytes.length > KEY_BYTES_MAX) {
            throw new IllegalArgumentException(
                    "a key has 1 to " + KEY_BYTES_MAX + " bytes, not " + bytes.length);
        }
        for (byte b : bytes) {
            if (b >= 0 && b <= ' ' || b == 127) {
                throw new IllegalArgumentException("a key has no spaces and control characters");
            }
        }
        return bytes;
    }
}
