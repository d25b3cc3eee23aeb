package cellar.client.internal.wire;

import cellar.client.Ttl;
import java.time.Duration;

/** Expiry times in the form of the protocol. */
public final class Expiry {
    /** The protocol interprets larger numbers as Unix time. */
    private static final long RELATIVE_S_MAX = 30L * 24 * 3600;

    private Expiry() {}

    /**
     * Returns the number for {@code ttl}: 0 for never, seconds, or the Unix time of its end.
     *
     * @throws IllegalArgumentException if the TTL is zero or negative
     */
    public static long seconds(Duration ttl) {
        if (ttl.equals(Ttl.NEVER)) {
            return 0;
        }
        if (ttl.isNegative() || ttl.isZero()) {
            throw new IllegalArgumentException("a TTL is more than zero, not " + ttl);
        }
        return seconds(ttl.getSeconds() + (ttl.getNano() > 0 ? 1 : 0));
    }

    /** Whether {@code expiry} counts from now; otherwise it is Unix time. */
    static boolean isRelative(long expiry) {
        return expiry <= RELATIVE_S_MAX;
    }

    /** Returns the number for the remaining TTL: {@link MetaLine#FOREVER} or seconds. */
    public static long seconds(long left_s) {
        if (left_s == MetaLine.FOREVER) {
            return 0;
        }
        if (left_s <= RELATIVE_S_MAX) {
            return Math.max(1, left_s);
        }
        long now_s = System.currentTimeMillis() / 1000;
        return Math.min(now_s + left_s, Integer.MAX_VALUE);
    }
}
