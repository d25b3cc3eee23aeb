package cellar.bench;

import com.spotify.folsom.ConnectFuture;
import com.spotify.folsom.MemcacheClient;
import com.spotify.folsom.MemcacheClientBuilder;
import java.io.Serializable;
import java.util.List;
import java.util.concurrent.ForkJoinPool;

/** Folsom, with its serialising transcoder for all values. */
final class FolsomPeer implements Peer {
    private static final int TTL_S = 3600;

    private final MemcacheClient<Serializable> client;

    FolsomPeer(List<Integer> ports, boolean binary) throws Exception {
        MemcacheClientBuilder<Serializable> builder =
                MemcacheClientBuilder.newSerializableObjectClient()
                        .withReplyExecutor(ForkJoinPool.commonPool())
                        .withConnectionTimeoutMillis(10_000)
                        .withMaxOutstandingRequests(10_000);
        for (int port : ports) {
            builder.withAddress("127.0.0.1", port);
        }
        client = binary ? builder.connectBinary() : builder.connectAscii();
        ConnectFuture.connectFuture(client).toCompletableFuture().get();
    }

    @Override
    public Object get(String key) throws Exception {
        return client.get(key).toCompletableFuture().get();
    }

    @Override
    public void set(String key, Object value) throws Exception {
        client.set(key, (Serializable) value, TTL_S).toCompletableFuture().get();
    }

    @Override
    public void getAsync(String key, Runnable done) {
        client.get(key).whenComplete((value, failure) -> done.run());
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
