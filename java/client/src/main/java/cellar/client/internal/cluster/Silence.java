package cellar.client.internal.cluster;

import java.util.Collection;

/**
 * Who is to blame when a node does not answer. Belongs to {@link Watch}'s lock.
 *
 * <p>A client that stands still for a while, or that its own network cuts off, hears no node, or
 * none in time; if it took that for their fault, it alone would put nearly all of them out. So a
 * node that has not answered in time is asked once more when all others have answered since, and is
 * to blame if they answer what they are asked a while later and it still has not. One that refuses
 * or ends its connection is to blame if all others answer after that. If others are silent too, it
 * takes longer: until one has answered all the while.
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

    /** A node has not answered in time, and no other has answered what it was asked last. */
    void hearsNobody() {
        deaf = true;
    }

    /** A poll begins: of a silent node that may be the trial that shows whose fault it is. */
    void asks(Seen node, Collection<Seen> others, long now_ms) {
        long since_ms = node.silentSince_ms();
        if (node.isSilent() && others.stream().allMatch(o -> o.answeredLast_ms() >= since_ms)) {
            node.blamed(now_ms + timing.again());
        }
    }

    /** Whether {@code node} is to blame for its silence, as far as {@code others} tell. */
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

    /** Whether {@code other} was never silent with {@code node}, and answered what came later. */
    private static boolean isWitness(Seen other, Seen node) {
        return !other.isSilent()
                && other.answersSince_ms() <= node.silentSince_ms()
                && other.answeredLast_ms() >= node.blamedFrom_ms();
    }

    /** Whether {@code node} has been silent for this long while the client heard others. */
    boolean lasts(Seen node, long now_ms, long silence_ms) {
        boolean hears = now_ms - answered_ms <= timing.lease();
        return hears && node.isSilent() && now_ms - since_ms(node) > silence_ms;
    }

    /** Since when {@code node} has been silent to a client that hears. */
    private long since_ms(Seen node) {
        return Math.max(node.silentSince_ms(), hearingSince_ms);
    }
}
