package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.nio.charset.StandardCharsets;

/**
 * Requests and replies of the Redis protocol, version 2, as far as operations need them.
 *
 * <p>Source: Redis's "RESP protocol spec". Push messages arrive on a separate connection, see
 * {@link RespReader}.
 */
final class Resp {
    private Resp() {}

    /** Begins a command of {@code words} words. */
    static Out begin(Out out, int words) {
        return out.put('*').put(words).end();
    }

    /** Appends a word. */
    static Out word(Out out, byte[] word) {
        return out.put('$').put(word.length).end().put(word).end();
    }

    /** Appends a word in ASCII. */
    static Out word(Out out, String word) {
        return out.put('$').put(word.length()).end().put(word).end();
    }

    /** Appends a number. */
    static Out word(Out out, long number) {
        return word(out, Long.toString(number).getBytes(StandardCharsets.US_ASCII));
    }

    /** Returns the option for an {@link Expiry} that is not 0: seconds from now, or Unix time. */
    static String expiryOption(long expiry) {
        return Expiry.isRelative(expiry) ? "EX" : "EXAT";
    }

    /** Whether the current line is a null. */
    static boolean isNull(In in) {
        return in.is("$-1");
    }

    /** Returns the number after the first character of the current line. */
    static long number(In in) {
        String line = in.text();
        try {
            return Long.parseLong(line.substring(1));
        } catch (NumberFormatException | IndexOutOfBoundsException e) {
            throw new CacheException.Protocol("not a number in RESP: " + line);
        }
    }

    /** Returns the length of the bulk string that the current line announces. */
    static int length(In in) {
        return MetaLine.size(number(in));
    }
}
