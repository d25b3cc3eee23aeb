package cellar.bench;

import com.spotify.folsom.ConnectFuture;
import com.spotify.folsom.MemcacheClient;
import com.spotify.folsom.MemcacheClientBuilder;
import java.util.List;
import java.util.function.Consumer;

/**
 * Folsom, with its transcoder of text, or for objects the one that serialises.
 *
 * <p>Replies complete on its event loop: its default, the common pool, starts a thread for each
 * reply where there are two processors or fewer.
 */
final class FolsomPeer implements Peer {
    private static final int TTL_S = 3600;

    private final MemcacheClient<Object> client;

    FolsomPeer(List<Integer> ports, boolean binary, String value) throws Exception {
        MemcacheClientBuilder<Object> builder =
                builder(value)
                        .withReplyExecutor(Runnable::run)
                        .withConnectionTimeoutMillis(10_000)
                        .withMaxOutstandingRequests(10_000);
        for (int port : ports) {
            builder.withAddress("127.0.0.1", port);
        }
        client = binary ? builder.connectBinary() : builder.connectAscii();
        ConnectFuture.connectFuture(client).toCompletableFuture().get();
    }

    @SuppressWarnings("unchecked")
    private static MemcacheClientBuilder<Object> builder(String value) {
        MemcacheClientBuilder<?> builder =
                value.equals("object")
                        ? MemcacheClientBuilder.newSerializableObjectClient()
                        : MemcacheClientBuilder.newStringClient();
        return (MemcacheClientBuilder<Object>) builder;
    }

    @Override
    public Object get(String key) throws Exception {
        return client.get(key).toCompletableFuture().get();
    }

    @Override
    public void set(String key, Object value) throws Exception {
        client.set(key, value, TTL_S).toCompletableFuture().get();
    }

    @Override
    public void getAsync(String key, Consumer<Object> done) {
        client.get(key).whenComplete((value, failure) -> done.accept(value));
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
