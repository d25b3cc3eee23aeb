package cellar.client.testing;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicBoolean;

/** Makes a memcached report version 1.4.39, which has no meta commands. */
public final class Classic {
    private static final String ASKED = "version\r\n";
    private static final String SAID = "VERSION 1.4.39\r\n";

    private final AtomicBoolean meta = new AtomicBoolean();

    /** Returns the filter of one connection. */
    public Cable.Filter filter() {
        return new Cable.Filter() {
            private boolean asked;

            @Override
            public byte[] sent(byte[] bytes) {
                asked |= text(bytes).equals(ASKED);
                if (bytes.length > 3 && bytes[0] == 'm' && bytes[2] == ' ') {
                    meta.set(true);
                }
                return bytes;
            }

            @Override
            public byte[] answered(byte[] bytes) {
                if (asked && text(bytes).startsWith("VERSION ")) {
                    asked = false;
                    return SAID.getBytes(StandardCharsets.US_ASCII);
                }
                return bytes;
            }
        };
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.ISO_8859_1);
    }

    /** Whether a meta command was sent. */
    public boolean sawMeta() {
        return meta.get();
    }
}
