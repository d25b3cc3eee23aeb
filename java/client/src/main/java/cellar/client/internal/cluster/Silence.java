package cellar.client.internal.cluster;

import java.util.Collection;

/**
 * Decides whether a node that does not answer is at fault. Guarded by {@link Watch}'s lock.
 *
 * <p>A client that was paused or is cut off gets answers from no node, or gets them late. If it
 * took that for the nodes' fault, it alone would declare nearly all of them out. So a node that has
 * not answered in time is asked once more when all others have answered since. It is at fault if
 * the others answer a request of a while later and it still has not answered. A node that refuses
 * or closes its connection is at fault if all others answer after that. If others are silent too,
 * it takes longer: until another node has answered without a break.
 */
final class Silence {
    private final Timing timing;
    private long answered_ms = Seen.NEVER_MS;
    private long hearingSince_ms = Seen.NEVER_MS;
    private boolean deaf;

    Silence(Timing timing) {
        this.timing = timing;
    }

    /** A node has answered. */
    void answered(long now_ms) {
        boolean isFirst = answered_ms == Seen.NEVER_MS;
        if (deaf || !isFirst && now_ms - answered_ms > timing.lease()) {
            hearingSince_ms = now_ms;
        }
        deaf = false;
        answered_ms = now_ms;
    }

    /** A node has not answered in time, and no other node answered its last poll. */
    void hearsNobody() {
        deaf = true;
    }

    /**
     * A poll starts; for a silent node it may be the one that shows whether the node is at fault.
     */
    void asks(Seen node, Collection<Seen> others, long now_ms) {
        long since_ms = node.silentSince_ms();
        if (node.isSilent() && others.stream().allMatch(o -> o.answeredLast_ms() >= since_ms)) {
            node.blamed(now_ms + timing.again());
        }
    }

    /** Whether {@code node} is at fault for its silence, as far as {@code others} show. */
    boolean isItsOwn(Seen node, Collection<Seen> others) {
        if (!node.isSilent() || node.isExcused() || others.isEmpty()) {
            return false;
        }
        long since_ms = since_ms(node);
        boolean alone =
                node.blamedFrom_ms() >= hearingSince_ms
                        && others.stream().allMatch(other -> isWitness(other, node));
        return alone || others.stream().anyMatch(other -> hasAnswered(other, since_ms));
    }

    private boolean hasAnswered(Seen other, long since_ms) {
        long from_ms = Math.max(since_ms, other.answersSince_ms());
        return !other.isSilent() && other.answeredLast_ms() >= from_ms + timing.doubt();
    }

    /**
     * Whether {@code other} was never silent together with {@code node} and has answered a later
     * poll.
     */
    private static boolean isWitness(Seen other, Seen node) {
        return !other.isSilent()
                && other.answersSince_ms() <= node.silentSince_ms()
                && other.answeredLast_ms() >= node.blamedFrom_ms();
    }

    /**
     * Whether {@code node} has been silent for this long while the client got answers from others.
     */
    boolean lasts(Seen node, long now_ms, long silence_ms) {
        boolean hears = now_ms - answered_ms <= timing.lease();
        return hears && node.isSilent() && now_ms - since_ms(node) > silence_ms;
    }

    /** Returns since when {@code node} has been silent while the client got answers. */
    private long since_ms(Seen node) {
        return Math.max(node.silentSince_ms(), hearingSince_ms);
    }
}
