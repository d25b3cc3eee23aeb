package cellar.client.internal.cluster;

import cellar.client.internal.wire.ReadOperation;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The state of a read: which node to ask, whether another node must be asked too, and which answer
 * counts.
 *
 * <p>It sends nothing, so blocking and asynchronous callers share it. They send {@link #request} to
 * {@link #asked} and repeat this while {@link #goesOn} returns true.
 */
final class Reading<R extends @Nullable Object> {
    private final Watch watch;
    private final byte[] key;
    private final Supplier<ReadOperation<R>> read;
    private final Replica home;
    private final Homes homes;
    private List<Replica> tried = List.of();
    private Replica asked;
    private ReadOperation<R> request;
    private @Nullable ReadOperation<R> best;

    /** Starts at {@code home}, as in {@code homes}; calls {@code read} once for each node. */
    Reading(Watch watch, byte[] key, Homes homes, Replica home, Supplier<ReadOperation<R>> read) {
        this.watch = watch;
        this.key = key;
        this.read = read;
        this.home = home;
        this.homes = homes;
        this.asked = home;
        this.request = read.get();
    }

    /** Returns the node to ask. */
    Replica asked() {
        return asked;
    }

    /** Returns the request to send to it. */
    ReadOperation<R> request() {
        return request;
    }

    /** Evaluates the complete request; true if there is a new one, for another node. */
    boolean goesOn() {
        ReadOperation<R> before = best;
        if (before != null && !isNoAnswer(before, request)) {
            best = better(before, request);
            return false;
        }
        ReadOperation<R> now = before != null && isNodesFault(request) ? before : request;
        best = now;
        if (isEnough(now)) {
            return false;
        }
        tried = and(tried, asked);
        Replica next = watch.homes().next(Homes.hash(key), tried);
        if (next == null) {
            return false;
        }
        asked = next;
        request = read.get();
        return true;
    }

    /** Returns the request whose answer counts, when {@link #goesOn} has returned false. */
    ReadOperation<R> answer() {
        ReadOperation<R> answer = best;
        return answer == null ? request : answer;
    }

    /**
     * Whether the read missed and the home may have been emptied meanwhile: a client that was
     * paused may have read from a node that is out. Such a miss must be read again.
     */
    boolean mayHaveMissed() {
        ReadOperation<R> answer = answer();
        return !answer.isCompletedExceptionally()
                && answer.isMiss()
                && !answer.isGone()
                && !watch.isHome(home, homes, Homes.hash(key));
    }

    private static List<Replica> and(List<Replica> tried, Replica more) {
        List<Replica> all = new ArrayList<>(tried);
        all.add(more);
        return all;
    }

    /** A miss without a tombstone may be a lost item. */
    private static boolean isEnough(ReadOperation<?> one) {
        return one.isCompletedExceptionally() ? !isNodesFault(one) : one.hit() || one.isGone();
    }

    /** If the home has failed, a miss at one other node is not final either. */
    private static boolean isNoAnswer(ReadOperation<?> one, ReadOperation<?> other) {
        return isNodesFault(other)
                || one.isCompletedExceptionally() && other.isMiss() && !other.isGone();
    }

    private static boolean isNodesFault(CompletableFuture<?> failed) {
        try {
            failed.join();
            return false;
        } catch (RuntimeException e) {
            return Replica.isNodesFault(e);
        }
    }

    /**
     * Returns the better of two answers; an item that only the second node has is added at the
     * home.
     */
    private ReadOperation<R> better(ReadOperation<R> one, ReadOperation<R> other) {
        boolean missed = !one.isCompletedExceptionally();
        if (other.isCompletedExceptionally() || missed && other.isMiss()) {
            return one;
        }
        if (missed && other.bytes() != null) {
            Item copy = EndpointPeer.found(other).copy(watch.homes().numberOf(asked));
            if (copy != null) {
                home.copy().store(key, copy, Peer.If.ABSENT, 0);
            }
        }
        return other;
    }
}
