package cellar.client.internal.cluster;

import cellar.client.internal.cluster.View.State;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The nodes that a client lists, and its rules for all other nodes.
 *
 * <p>The client cannot send its changes to a node outside its list, nor read items that only this
 * node has. So such a node is out as long as the client runs, and the client refuses to have it
 * filled. When the last client that does not list the node has ended, no client refuses any more.
 *
 * <p>Rules: docs/java-replication.md.
 */
final class Listed {
    private static final Logger LOG = LoggerFactory.getLogger(Listed.class);

    private final Set<String> names;
    private final Timing timing;
    private volatile long orphanedSince_ms = Long.MAX_VALUE;

    /** Creates it for these nodes; the set may change and be read by any thread. */
    Listed(Set<String> names, Timing timing) {
        this.names = names;
        this.timing = timing;
    }

    /**
     * Applies the client's list to a view: all nodes outside the list are out, and requests to fill
     * them are refused. As long as no node of the list is in, those that are in stay in.
     */
    View judge(View view) {
        boolean own = view.nodes(State.IN).stream().anyMatch(names::contains);
        View judged = view;
        for (String node : view.nodes()) {
            if (!names.contains(node)) {
                State state = view.state(node);
                boolean leaves = state == State.FILLING || state == State.IN && own;
                judged = judged.refusing(node);
                judged = leaves ? judged.with(node, State.OUT) : judged;
            }
        }
        return judged;
    }

    /** Returns the first view that this client finds, with its nodes that the view lacks as out. */
    View withNewcomers(View found) {
        View view = found;
        for (String node : names) {
            view = found.knows(node) ? view : view.with(node, State.OUT);
        }
        return view;
    }

    /** Logs the nodes that have become out because they are not listed. */
    void report(View before, View now) {
        for (String node : now.nodes()) {
            boolean leaves = now.state(node) == State.OUT && !names.contains(node);
            if (leaves && before.number(node) != now.number(node)) {
                LOG.info("{} is not used: this client does not list it", node);
            }
        }
    }

    /** Records since when none of the listed nodes has been in or being filled. */
    void look(View view, long now_ms) {
        if (names.stream().anyMatch(node -> view.state(node) != State.OUT)) {
            orphanedSince_ms = Long.MAX_VALUE;
        } else if (orphanedSince_ms == Long.MAX_VALUE) {
            orphanedSince_ms = now_ms;
        }
    }

    /**
     * Whether this has lasted so long that the client starts without the items of the other nodes.
     */
    boolean isOrphaned(long now_ms) {
        long since_ms = orphanedSince_ms;
        return since_ms != Long.MAX_VALUE && now_ms - since_ms > timing.giveUp();
    }
}
