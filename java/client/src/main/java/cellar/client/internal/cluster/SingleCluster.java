package cellar.client.internal.cluster;

import cellar.client.internal.net.Endpoint;
import java.util.List;

/** A cluster of one node. */
public final class SingleCluster extends Cluster {
    private final Endpoint endpoint;

    /** Uses {@code endpoint} for all keys. */
    public SingleCluster(Endpoint endpoint) {
        this.endpoint = endpoint;
    }

    @Override
    public Endpoint home(byte[] key) {
        return endpoint;
    }

    @Override
    public List<Endpoint> endpoints() {
        return List.of(endpoint);
    }

    @Override
    public void close() {
        endpoint.close();
    }
}
