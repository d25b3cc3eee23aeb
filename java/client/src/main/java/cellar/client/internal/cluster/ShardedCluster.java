package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.Node;
import cellar.client.internal.net.Endpoint;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Each key is on one of several nodes, by a {@link Ring}.
 *
 * <p>With failover, the next node on the ring takes over the keys of a node that is down; without
 * it, their requests fail. The nodes may change while requests are in progress.
 */
public final class ShardedCluster extends Cluster {
    private record Members(@Nullable Ring ring, Map<Node, Endpoint> endpoints) {}

    private final Function<Node, Endpoint> connect;
    private final boolean failover;
    private final Retirement retired = new Retirement();
    private volatile Members members = new Members(null, Map.of());

    /** Starts without nodes; {@code connect} creates the endpoint of a node. */
    public ShardedCluster(Function<Node, Endpoint> connect, boolean failover) {
        this.connect = connect;
        this.failover = failover;
    }

    /** Sets the nodes; keeps the connections of those that stay. */
    public synchronized void use(List<Node> nodes) {
        Members before = members;
        Map<Node, Endpoint> endpoints = new HashMap<>();
        for (Node node : nodes) {
            Endpoint known = before.endpoints.get(node);
            endpoints.put(node, known == null ? connected(node) : known);
        }
        members = new Members(nodes.isEmpty() ? null : new Ring(nodes), endpoints);
        homesChanged();
        before.endpoints.forEach(
                (node, endpoint) -> {
                    if (!endpoints.containsKey(node)) {
                        retired.add(endpoint);
                    }
                });
    }

    private Endpoint connected(Node node) {
        Endpoint endpoint = connect.apply(node);
        endpoint.listen(
                new Endpoint.Listener() {
                    @Override
                    public void lost(Endpoint which) {
                        homesChanged();
                    }

                    @Override
                    public void back(Endpoint which) {
                        homesChanged();
                    }
                });
        return endpoint;
    }

    @Override
    public Endpoint home(byte[] key) {
        Members now = members;
        Ring ring = now.ring;
        if (ring == null) {
            throw new CacheException.Connection("no nodes are known yet", null);
        }
        Endpoint home = endpoint(now, ring.node(key));
        return failover && home.isDown() ? standIn(now, ring, key, home) : home;
    }

    private static Endpoint standIn(Members now, Ring ring, byte[] key, Endpoint home) {
        for (Node node : ring.order(key)) {
            Endpoint endpoint = endpoint(now, node);
            if (!endpoint.isDown()) {
                return endpoint;
            }
        }
        return home;
    }

    private static Endpoint endpoint(Members now, Node node) {
        Endpoint endpoint = now.endpoints.get(node);
        if (endpoint == null) {
            throw new IllegalStateException("every node of the ring has an endpoint");
        }
        return endpoint;
    }

    @Override
    public List<Endpoint> endpoints() {
        return new ArrayList<>(members.endpoints.values());
    }

    @Override
    public synchronized void close() {
        members.endpoints.values().forEach(Endpoint::close);
        retired.close();
    }
}
