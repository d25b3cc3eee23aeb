package cellar.client.internal.cluster;

import cellar.client.internal.wire.Mark;
import cellar.client.internal.wire.Mark.Kind;
import org.jspecify.annotations.Nullable;

/**
 * The answer of a node that was asked for an item.
 *
 * @param item null if there is none
 * @param version the node's own, 0 if it was not asked for
 * @param leased whether the item is only there so that one caller can be told to load it
 */
public record Found(@Nullable Item item, long version, boolean leased) {
    static final Found NOTHING = new Found(null, 0, false);

    /** What copies are made of if it was found at {@code home}; null if nothing is to be copied. */
    @Nullable Item copy(int home) {
        Item there = item;
        if (there == null || leased) {
            return null;
        }
        return there.isNumber() || version == 0 ? there : there.copied(home, version);
    }

    /** The value that a caller may have; null if there is none. */
    public @Nullable Item live() {
        Item there = item;
        return there == null || there.kind() == Kind.GONE ? null : there;
    }

    /** More than 0 if {@code copy} is later than what was found; null if that is not known. */
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
