package cellar.client.testing;

import cellar.client.Discovery;
import cellar.client.Node;
import java.time.Duration;
import java.util.List;
import java.util.function.Supplier;

/** A discovery of nodes that the test changes. */
public final class ChangingNodes {
    private static final Duration OFTEN = Duration.ofMillis(5);

    private ChangingNodes() {}

    /** Calls {@code nodes} very often. */
    public static Discovery of(Supplier<List<Node>> nodes) {
        return every(OFTEN, nodes);
    }

    /** Calls {@code nodes} once in each period. */
    public static Discovery every(Duration period, Supplier<List<Node>> nodes) {
        return new Discovery() {
            @Override
            public List<Node> nodes() {
                return nodes.get();
            }

            @Override
            public Duration period() {
                return period;
            }
        };
    }
}
