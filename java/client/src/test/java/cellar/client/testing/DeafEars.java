package cellar.client.testing;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Hides moved slots from a client of a cluster: the map is always the first one, and push messages
 * about more than keys are dropped. Everything else passes.
 */
public final class DeafEars implements Cable.Filter {
    private static final byte[] MAP = "*".getBytes(StandardCharsets.US_ASCII);

    private final AtomicReference<byte @Nullable []> map;
    private byte[] rest = new byte[0];

    /** Shows the first map seen on any of the connections that share {@code map}. */
    public DeafEars(AtomicReference<byte @Nullable []> map) {
        this.map = map;
    }

    @Override
    public byte[] answered(byte[] bytes) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        all.writeBytes(rest);
        all.writeBytes(bytes);
        byte[] come = all.toByteArray();
        ByteArrayOutputStream passed = new ByteArrayOutputStream();
        int from = 0;
        for (int end = end(come, 0); end > 0; end = end(come, from)) {
            passed.writeBytes(heard(java.util.Arrays.copyOfRange(come, from, end)));
            from = end;
        }
        rest = java.util.Arrays.copyOfRange(come, from, come.length);
        return passed.toByteArray();
    }

    private byte[] heard(byte[] reply) {
        String text = new String(reply, StandardCharsets.ISO_8859_1);
        if (text.startsWith(">")) {
            boolean ofKeys = text.contains("\r\ninvalidate\r\n*");
            return ofKeys ? reply : new byte[0];
        }
        boolean isMap = reply[0] == MAP[0] && text.contains("\r\n*");
        if (!isMap) {
            return reply;
        }
        map.compareAndSet(null, reply);
        byte[] first = map.get();
        return first == null ? reply : first;
    }

    /** Returns the end of the reply that begins at {@code at}; -1 if it is incomplete. */
    private static int end(byte[] bytes, int at) {
        int line = at;
        while (line + 1 < bytes.length && (bytes[line] != '\r' || bytes[line + 1] != '\n')) {
            line++;
        }
        if (line + 1 >= bytes.length) {
            return -1;
        }
        int next = line + 2;
        String head = new String(bytes, at + 1, line - at - 1, StandardCharsets.US_ASCII);
        switch (bytes[at]) {
            case '$', '=' -> {
                int size = Integer.parseInt(head);
                next += size < 0 ? 0 : size + 2;
                return next <= bytes.length ? next : -1;
            }
            case '*', '>', '~', '%' -> {
                int parts = Integer.parseInt(head) * (bytes[at] == '%' ? 2 : 1);
                for (int i = 0; i < parts && next > 0; i++) {
                    next = end(bytes, next);
                }
                return next;
            }
            default -> {
                return next;
            }
        }
    }
}
