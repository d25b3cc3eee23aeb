package cellar.client.internal.cluster;

import cellar.client.internal.net.Endpoint;
import java.util.List;

public final class ReplicatedCluster extends Cluster {
    private final List<Endpoint> endpoints;

    public ReplicatedCluster(List<Endpoint> endpoints, int queueMax) {
        this.endpoints = endpoints;
    }

    @Override
    public Endpoint home(byte[] key) {
        return endpoints.get(0);
    }

    @Override
    public List<Endpoint> endpoints() {
        return endpoints;
    }

    @Override
    public void close() {
        endpoints.forEach(Endpoint::close);
    }
}
