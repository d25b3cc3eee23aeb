package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** One node of a replicated cluster, and what this client knows of it. */
final class Replica {
    private final String name;
    private final Peer home;
    private final Peer copy;
    private final CopyQueue queue;
    private final Consumer<Boolean> told;
    private final Seen seen = new Seen();
    private volatile @Nullable Filling filling;
    private volatile boolean refused;

    /**
     * A node.
     *
     * @param home for what only a home is asked: refuses a process that does not know the view
     * @param copy for everything else
     * @param told hears at each poll whether the node knows the view
     */
    Replica(String name, Peer home, Peer copy, CopyQueue queue, Consumer<Boolean> told) {
        this.name = name;
        this.home = home;
        this.copy = copy;
        this.queue = queue;
        this.told = told;
    }

    String name() {
        return name;
    }

    Peer home() {
        return home;
    }

    Peer copy() {
        return copy;
    }

    CopyQueue queue() {
        return queue;
    }

    /** What its polls have told; for {@link Watch} only. */
    Seen seen() {
        return seen;
    }

    void tell(boolean knowsView) {
        told.accept(knowsView);
    }

    @Nullable Filling filling() {
        return filling;
    }

    void filling(@Nullable Filling now) {
        filling = now;
    }

    /** Whether another client is known to refuse that it is filled. */
    boolean isRefused() {
        return refused;
    }

    void refused(boolean now) {
        refused = now;
    }

    /** Whether the node failed, rather than refused. */
    static boolean isNodesFault(Throwable failure) {
        CacheException known = Stages.known(failure);
        return known instanceof CacheException.Connection
                || known instanceof CacheException.Timeout
                || known instanceof CacheException.Protocol;
    }
}
