package cellar.client.internal.wire;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * The mark of an item of replicated nodes, in the upper half of its flags.
 *
 * <pre>
 * bit 31, 30: kind | 29: ordered | 28 to 16: view | 15 to 0: the codec's flags
 * </pre>
 *
 * The view is the one in which the item was written, modulo {@link #VIEWS}. An ordered item is a
 * copy. After its value come three fields: a byte that is neither a digit nor a space, so that the
 * server does not count the item, the number of the home that it was copied from, and its version
 * there.
 *
 * <p>Why: docs/java-replication.md.
 */
public final class Mark {
    /** The kind of an item. */
    public enum Kind {
        /** A value. */
        VALUE,
        /** A value that was invalidated. */
        STALE,
        /** A tombstone, with an empty value. */
        GONE
    }

    /** Views can be compared while they are less than half of this apart. */
    public static final int VIEWS = 1 << 13;

    private static final int KIND_SHIFT = 30;
    private static final int ORDERED = 1 << 29;
    private static final int VIEW_SHIFT = 16;
    private static final int FLAGS = 0xffff;
    private static final byte TRAILER = 1;
    private static final int TRAILER_BYTES = 1 + Integer.BYTES + Long.BYTES;

    private Mark() {}

    /** Returns the flags for the server. */
    public static int flags(Kind kind, boolean ordered, int view, int flags) {
        return kind.ordinal() << KIND_SHIFT
                | (ordered ? ORDERED : 0)
                | (view & VIEWS - 1) << VIEW_SHIFT
                | flags & FLAGS;
    }

    /** Whether a codec's flags fit in the lower 16 bits. */
    public static boolean fits(int flags) {
        return (flags & FLAGS) == flags;
    }

    /** Returns the kind of the item. */
    public static Kind kind(int marked) {
        return Kind.values()[Math.min(marked >>> KIND_SHIFT, Kind.GONE.ordinal())];
    }

    /** Whether an order follows the value. */
    public static boolean isOrdered(int marked, int size_bytes) {
        return (marked & ORDERED) != 0 && size_bytes >= TRAILER_BYTES;
    }

    /** Returns the view in which it was written. */
    public static int view(int marked) {
        return marked >>> VIEW_SHIFT & VIEWS - 1;
    }

    /** Returns the codec's flags. */
    public static int user(int marked) {
        return marked & FLAGS;
    }

    /** Returns the size of the value, of an item of {@code size_bytes}. */
    public static int size_bytes(int marked, int size_bytes) {
        return isOrdered(marked, size_bytes) ? size_bytes - TRAILER_BYTES : size_bytes;
    }

    /** Returns the value without its order. */
    public static byte[] value(int marked, byte[] bytes) {
        return isOrdered(marked, bytes.length)
                ? Arrays.copyOf(bytes, bytes.length - TRAILER_BYTES)
                : bytes;
    }

    /** Returns the home that it was copied from; 0 if it has no order. */
    public static int home(int marked, byte[] bytes) {
        return isOrdered(marked, bytes.length)
                ? ByteBuffer.wrap(bytes).getInt(bytes.length - Integer.BYTES - Long.BYTES)
                : 0;
    }

    /** Returns the value's order; 0 if it has none. */
    public static long order(int marked, byte[] bytes) {
        return isOrdered(marked, bytes.length)
                ? ByteBuffer.wrap(bytes).getLong(bytes.length - Long.BYTES)
                : 0;
    }

    /** Returns the value with its order. */
    public static byte[] ordered(byte[] value, int home, long order) {
        return ByteBuffer.allocate(value.length + TRAILER_BYTES)
                .put(value)
                .put(TRAILER)
                .putInt(home)
                .putLong(order)
                .array();
    }

    /** Greater than 0 if {@code view} is later than {@code other}, less if earlier. */
    public static int compareViews(int view, int other) {
        int ahead = view - other & VIEWS - 1;
        return ahead < VIEWS / 2 ? ahead : ahead - VIEWS;
    }
}
