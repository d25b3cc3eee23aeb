package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** A node of a replicated cluster, and what this client knows about it. */
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
     * Creates a node.
     *
     * @param home for requests to a home; refuses a process that does not have the view
     * @param copy for all other requests
     * @param told called after each poll with whether the node has the view
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

    /** Returns the results of its polls; for {@link Watch} only. */
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

    /** Whether another client is known to refuse to have it filled. */
    boolean isRefused() {
        return refused;
    }

    void refused(boolean now) {
        refused = now;
    }

    /** Whether the node itself failed, rather than refused the request. */
    static boolean isNodesFault(Throwable failure) {
        CacheException known = Stages.known(failure);
        return known instanceof CacheException.Connection
                || known instanceof CacheException.Timeout
                || known instanceof CacheException.Protocol;
    }
}
