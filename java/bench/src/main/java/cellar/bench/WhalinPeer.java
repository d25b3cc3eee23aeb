package cellar.bench;

import com.whalin.MemCached.MemCachedClient;
import com.whalin.MemCached.SockIOPool;
import java.util.Date;
import java.util.List;

/** whalin's client, on which S3's client rests; {@code aliveCheck} is its liveness check. */
final class WhalinPeer implements Peer {
    private static final long TTL_MS = 3_600_000;
    private static final int CONNECTIONS_MAX = 128;

    private final SockIOPool pool;
    private final MemCachedClient client;

    WhalinPeer(List<Integer> ports) {
        this(ports, false);
    }

    WhalinPeer(List<Integer> ports, boolean aliveCheck) {
        String name = "pool-" + System.nanoTime();
        pool = SockIOPool.getInstance(name);
        pool.setServers(ports.stream().map(port -> "127.0.0.1:" + port).toArray(String[]::new));
        pool.setInitConn(10);
        pool.setMinConn(10);
        pool.setMaxConn(CONNECTIONS_MAX);
        pool.setNagle(false);
        pool.setAliveCheck(aliveCheck);
        pool.setHashingAlg(SockIOPool.CONSISTENT_HASH);
        pool.initialize();
        client = new MemCachedClient(name);
    }

    @Override
    public Object get(String key) {
        return client.get(key);
    }

    @Override
    public void set(String key, Object value) {
        if (!client.set(key, value, new Date(TTL_MS))) {
            throw new IllegalStateException("not stored");
        }
    }

    @Override
    public void close() {
        pool.shutDown();
    }
}
