package cellar.client.internal.wire;

import cellar.client.CacheException;

/**
 * A reply line of the meta protocol: status, size of the value, flags.
 *
 * <p>Source: memcached doc/protocol.txt, "Meta Commands".
 */
public final class MetaLine {
    /** A value follows. */
    public static final int VALUE = status('V', 'A');

    /** Success without a value. */
    public static final int DONE = status('H', 'D');

    /** A miss of a read. */
    public static final int MISS = status('E', 'N');

    /** Not stored. */
    public static final int NOT_STORED = status('N', 'S');

    /** Another version. */
    public static final int EXISTS = status('E', 'X');

    /** A miss of any other command. */
    public static final int NOT_FOUND = status('N', 'F');

    /** The end of a batch. */
    public static final int NOTHING = status('M', 'N');

    /** The value of {@link #ttl_s} for an item that does not expire. */
    public static final long FOREVER = -1;

    private static final int SIZE_MAX = Integer.MAX_VALUE - 64;

    private int size_bytes;
    private int flags;
    private long version;
    private long ttl_s;
    private int opaque;
    private boolean won;
    private boolean waiting;
    private boolean stale;

    /** Returns the size of the value in bytes. */
    int size_bytes() {
        return size_bytes;
    }

    /** Returns the item's flags. */
    int flags() {
        return flags;
    }

    /** Returns the item's version. */
    long version() {
        return version;
    }

    /** Returns the remaining TTL in seconds, or {@link #FOREVER}. */
    long ttl_s() {
        return ttl_s;
    }

    /** Returns the opaque number of the request; -1 if it is not one of this client. */
    int opaque() {
        return opaque;
    }

    /** Whether the caller has won the lease and must load the value. */
    boolean won() {
        return won;
    }

    /** Whether another caller is loading the value. */
    boolean waiting() {
        return waiting;
    }

    /** Whether the item was invalidated. */
    boolean stale() {
        return stale;
    }

    static int status(int first, int second) {
        return (first & 0xff) << 8 | (second & 0xff);
    }

    void read(byte[] bytes, int start, int end) {
        int status = status(bytes[start], bytes[start + 1]);
        size_bytes = 0;
        flags = 0;
        version = 0;
        ttl_s = FOREVER;
        opaque = 0;
        won = false;
        waiting = false;
        stale = false;
        int at = start + 2;
        if (status == VALUE) {
            size_bytes = size(number(bytes, at + 1, end));
            at = nextSpace(bytes, at + 1, end);
        }
        while (at < end) {
            token(bytes, at + 1, end);
            at = nextSpace(bytes, at + 1, end);
        }
    }

    private void token(byte[] bytes, int at, int end) {
        if (at >= end) {
            return;
        }
        switch (bytes[at]) {
            case 'f' -> flags = (int) number(bytes, at + 1, end);
            case 'c' -> version = number(bytes, at + 1, end);
            case 't' ->
                    ttl_s =
                            at + 1 < end && bytes[at + 1] == '-'
                                    ? FOREVER
                                    : number(bytes, at + 1, end);
            case 'O' -> opaque = opaque(bytes, at + 1, end);
            case 'W' -> won = true;
            case 'Z' -> waiting = true;
            case 'X' -> stale = true;
            default -> {}
        }
    }

    /** Parses the opaque number that this client sent; -1 for any other token. */
    private static int opaque(byte[] bytes, int at, int end) {
        boolean number = at < end && bytes[at] >= '0' && bytes[at] <= '9';
        return number ? (int) number(bytes, at, end) : -1;
    }

    private static int nextSpace(byte[] bytes, int at, int end) {
        while (at < end && bytes[at] != ' ') {
            at++;
        }
        return at;
    }

    static int size(long number) {
        if (number < 0 || number > SIZE_MAX) {
            throw new CacheException.Protocol("a value of " + number + " bytes");
        }
        return (int) number;
    }

    /** Parses the unsigned decimal number at {@code at}, up to a space or {@code end}. */
    static long number(byte[] bytes, int at, int end) {
        if (at >= end) {
            throw new CacheException.Protocol("a number is missing in a reply");
        }
        long number = 0;
        for (int i = at; i < end && bytes[i] != ' '; i++) {
            int digit = bytes[i] - '0';
            if (digit < 0 || digit > 9 || i - at >= 20) {
                throw new CacheException.Protocol("not a number in a reply");
            }
            number = number * 10 + digit;
        }
        return number;
    }
}
