package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Reads the Redis protocol, version 3, as far as tracking needs it: strings, numbers, null, arrays,
 * maps (as flat lists) and push messages.
 *
 * <p>Source: Redis's "RESP protocol spec".
 */
public final class RespReader {
    /** A push message. */
    public record Push(List<@Nullable Object> parts) {}

    /** The server's error reply to a command. */
    public record Refusal(String message) {}

    /** The message is incomplete. */
    public static final Object INCOMPLETE = new Object();

    private static final int DEPTH_MAX = 8;
    private static final int PARTS_MAX = 1 << 20;

    private final In in;
    private int position;

    /** Reads from {@code in}. */
    public RespReader(In in) {
        this.in = in;
    }

    /** Consumes the next message; {@link #INCOMPLETE} if it has not completely arrived. */
    public @Nullable Object next() {
        position = in.position();
        Object message = read(0);
        if (message != INCOMPLETE) {
            in.take(position);
        }
        return message;
    }

    private @Nullable Object read(int depth) {
        int end = in.lineEnd(position);
        if (end < 0) {
            return INCOMPLETE;
        }
        byte[] bytes = in.array();
        int kind = bytes[position];
        String line = new String(bytes, position + 1, end - position - 1, StandardCharsets.UTF_8);
        position = end + 2;
        return switch (kind) {
            case '+' -> line;
            case '-' -> new Refusal(line);
            case ':' -> number(line);
            case '_' -> null;
            case '#' -> line.equals("t");
            case ',' -> line;
            case '$', '=' -> block(count(line));
            case '*', '~' -> list(count(line), depth);
            case '%' -> list(2 * count(line), depth);
            case '>' -> push(count(line), depth);
            default -> throw new CacheException.Protocol("not RESP: " + (char) kind + line);
        };
    }

    private static long number(String line) {
        try {
            return Long.parseLong(line);
        } catch (NumberFormatException e) {
            throw new CacheException.Protocol("not a number in RESP: " + line);
        }
    }

    private static int count(String line) {
        long count = number(line);
        if (count < -1 || count > Integer.MAX_VALUE / 2) {
            throw new CacheException.Protocol("not a length in RESP: " + line);
        }
        return (int) count;
    }

    private @Nullable Object block(int size) {
        if (size < 0) {
            return null;
        }
        if (in.end() - position < size + 2) {
            return INCOMPLETE;
        }
        String text = new String(in.array(), position, size, StandardCharsets.UTF_8);
        position += size + 2;
        return text;
    }

    private @Nullable Object list(int count, int depth) {
        if (count < 0) {
            return null;
        }
        if (depth == DEPTH_MAX || count > PARTS_MAX) {
            throw new CacheException.Protocol("a list too deep or too long in RESP");
        }
        List<@Nullable Object> parts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Object part = read(depth + 1);
            if (part == INCOMPLETE) {
                return INCOMPLETE;
            }
            parts.add(part);
        }
        return parts;
    }

    @SuppressWarnings("unchecked")
    private @Nullable Object push(int count, int depth) {
        Object parts = list(count, depth);
        return parts == INCOMPLETE || parts == null
                ? INCOMPLETE
                : new Push((List<@Nullable Object>) parts);
    }
}
