package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.wire.Mark;
import cellar.client.internal.wire.Mark.Kind;

/**
 * An item as a replicated node stores it. Immutable.
 *
 * @param kind of item
 * @param value its value, empty for a tombstone
 * @param flags the codec's, 16 bits
 * @param expiry in the form of {@link cellar.client.internal.wire.Expiry}
 * @param view in which it was written, modulo {@link Mark#VIEWS}
 * @param ordered whether it is a copy with an {@code order}
 * @param home number of the node that was its home when it was copied
 * @param order its version at that home
 */
@SuppressWarnings("ArrayRecordComponent")
public record Item(
        Kind kind,
        byte[] value,
        int flags,
        long expiry,
        int view,
        boolean ordered,
        int home,
        long order) {
    /** The TTL of a tombstone: longer than any filling and any queue takes. */
    static final long GONE_S = 600;

    private static final int DIGITS_MAX = 24;
    private static final byte[] NOTHING = new byte[0];

    /** Creates an item for its home. */
    public static Item of(Kind kind, byte[] value, int flags, long expiry) {
        return new Item(kind, value, flags, expiry, 0, false, 0, 0);
    }

    /** Creates a tombstone. */
    public static Item gone() {
        return of(Kind.GONE, NOTHING, 0, GONE_S);
    }

    /** Returns this item as written in the view {@code number}. */
    Item in(int number) {
        if (!Mark.fits(flags)) {
            throw new CacheException.Coding(
                    "replicated nodes keep 16 bits of a codec's flags, not " + flags, null);
        }
        return new Item(kind, value, flags, expiry, number & Mark.VIEWS - 1, false, 0, 0);
    }

    /** Returns the copy of this item, which has {@code version} at {@code from}. */
    Item copied(int from, long version) {
        return ordered ? this : new Item(kind, value, flags, expiry, view, true, from, version);
    }

    /** Whether servers can count it, so that no order may follow the value. */
    boolean isNumber() {
        if (ordered || kind == Kind.GONE || value.length == 0 || value.length > DIGITS_MAX) {
            return false;
        }
        for (byte b : value) {
            if ((b < '0' || b > '9') && b != ' ') {
                return false;
            }
        }
        return true;
    }

    int markedFlags() {
        return Mark.flags(kind, ordered, view, flags);
    }

    byte[] markedBytes() {
        return ordered ? Mark.ordered(value, home, order) : value;
    }
}
