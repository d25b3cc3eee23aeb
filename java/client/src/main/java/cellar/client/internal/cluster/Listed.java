package cellar.client.internal.cluster;

import cellar.client.internal.cluster.View.State;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The nodes that a client lists, and what it says of all others.
 *
 * <p>It cannot tell a node that it does not list of its changes, nor read what only that has. So
 * such a node is out as long as the client lives, and the client refuses that it is filled. When
 * the last client that does not list a node has ended, nobody refuses any more.
 *
 * <p>Rules: docs/java-replication.md.
 */
final class Listed {
    private static final Logger LOG = LoggerFactory.getLogger(Listed.class);

    private final Set<String> names;
    private final Timing timing;
    private volatile long orphanedSince_ms = Long.MAX_VALUE;

    /** For these nodes; the set may change, and be read by any thread. */
    Listed(Set<String> names, Timing timing) {
        this.names = names;
        this.timing = timing;
    }

    /**
     * What this client makes of a view: all nodes that it does not list are out, and requests to
     * fill them refused. As long as no node of its own is in, those that are in stay so.
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

    /** The first view that this client finds: its nodes of which that does not tell are out. */
    View withNewcomers(View found) {
        View view = found;
        for (String node : names) {
            view = found.knows(node) ? view : view.with(node, State.OUT);
        }
        return view;
    }

    /** Logs which nodes have gone out because they are not listed. */
    void report(View before, View now) {
        for (String node : now.nodes()) {
            boolean leaves = now.state(node) == State.OUT && !names.contains(node);
            if (leaves && before.number(node) != now.number(node)) {
                LOG.info("{} is not used: this client does not list it", node);
            }
        }
    }

    /** Notices since when none of the listed nodes is in or being filled. */
    void look(View view, long now_ms) {
        if (names.stream().anyMatch(node -> view.state(node) != State.OUT)) {
            orphanedSince_ms = Long.MAX_VALUE;
        } else if (orphanedSince_ms == Long.MAX_VALUE) {
            orphanedSince_ms = now_ms;
        }
    }

    /** Whether that is so for so long that the client begins without what the others have. */
    boolean isOrphaned(long now_ms) {
        long since_ms = orphanedSince_ms;
        return since_ms != Long.MAX_VALUE && now_ms - since_ms > timing.giveUp();
    }
}
