package cellar.client.internal.cluster;

import cellar.client.internal.wire.Mark;
import cellar.client.internal.wire.Mark.Kind;
import org.jspecify.annotations.Nullable;

/**
 * A node's answer to a read.
 *
 * @param item null if there is none
 * @param version of the item on the node, 0 if it was not requested
 * @param leased whether the item is the empty one that a lease creates on a miss
 */
public record Found(@Nullable Item item, long version, boolean leased) {
    static final Found NOTHING = new Found(null, 0, false);

    /** Returns the copy of an item found at {@code home}; null if there is nothing to copy. */
    @Nullable Item copy(int home) {
        Item there = item;
        if (there == null || leased) {
            return null;
        }
        return there.isNumber() || version == 0 ? there : there.copied(home, version);
    }

    /** Returns the item for a caller; null if there is none or it is a tombstone. */
    public @Nullable Item live() {
        Item there = item;
        return there == null || there.kind() == Kind.GONE ? null : there;
    }

    /** Greater than 0 if {@code copy} is newer than the item found; null if that is unknown. */
    @Nullable Integer compare(Item copy) {
        Item there = item;
        if (there == null) {
            return 1;
        }
        boolean both = there.ordered() && copy.ordered();
        if (both && there.home() == copy.home()) {
            return Long.compareUnsigned(copy.order(), there.order());
        }
        int views = Mark.compareViews(copy.view(), there.view());
        return views == 0 ? null : (Integer) views;
    }
}
