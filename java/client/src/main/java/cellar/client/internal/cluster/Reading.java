package cellar.client.internal.cluster;

import cellar.client.internal.wire.ReadOperation;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A read under way: who is asked for what, whether another node has to be asked as well, and which
 * answer counts.
 *
 * <p>It sends nothing, so callers who wait on their own thread and those who go on take the same
 * steps: they have {@link #request} answered by {@link #asked} as long as {@link #goesOn}.
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

    /** Begins at {@code home} by {@code homes}; {@code read} is called once for each node. */
    Reading(Watch watch, byte[] key, Homes homes, Replica home, Supplier<ReadOperation<R>> read) {
        this.watch = watch;
        this.key = key;
        this.read = read;
        this.home = home;
        this.homes = homes;
        this.asked = home;
        this.request = read.get();
    }

    /** Who is asked. */
    Replica asked() {
        return asked;
    }

    /** What it is asked. */
    ReadOperation<R> request() {
        return request;
    }

    /** Looks at the complete request; true if there is another one now, for another node. */
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

    /** The request whose answer counts, once it does not go on. */
    ReadOperation<R> answer() {
        ReadOperation<R> answer = best;
        return answer == null ? request : answer;
    }

    /**
     * Whether it found nothing and the home may have been emptied meanwhile: a client that stood
     * still may have asked a node that was out by then. Such a miss has to be read again.
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

    /** A miss without a trace of a removal may be a loss. */
    private static boolean isEnough(ReadOperation<?> one) {
        return one.isCompletedExceptionally() ? !isNodesFault(one) : one.hit() || one.isGone();
    }

    /** A miss at one node alone is no answer either, where the home has failed. */
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

    /** The answer of two; what only the second node has is added at home. */
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
