package cellar.client;

import cellar.client.internal.AsyncView;
import cellar.client.internal.Core;
import cellar.client.internal.cluster.Cluster;
import cellar.client.internal.cluster.Membership;
import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.internal.cluster.ShardedCluster;
import cellar.client.internal.cluster.SingleCluster;
import cellar.client.internal.cluster.SlotCluster;
import cellar.client.internal.local.LocalCache;
import cellar.client.internal.local.RespTracking;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.net.Loops;
import cellar.client.internal.net.MemoryEndpoint;
import cellar.client.internal.net.MemoryStore;
import cellar.client.internal.net.Settings;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.LongSupplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;

/**
 * Builds a {@link CacheClient}. Not safe for use by several threads; may be used again after {@link
 * #build}.
 */
public final class CacheClientBuilder {
    /** How keys are distributed over several nodes. */
    public enum Mode {
        /** Each key is on one node, by ketama with weights. */
        SHARDED,
        /** As {@code SHARDED}; if a node is down, the next node on the ring takes over its keys. */
        SHARDED_WITH_FAILOVER,
        /** Every node has all keys. */
        REPLICATED,
        /**
         * Each key is on the node that owns its slot, in a Cellar or Redis cluster with the Redis
         * protocol. The nodes given are some of the cluster's; it reports the others.
         */
        SLOTS
    }

    /** The protocol of the servers. */
    public enum Protocol {
        /** The memcached text protocol, with meta commands if the server supports them. */
        MEMCACHED,
        /** The Redis protocol, version 2; does not support versions, append, prepend and keys. */
        REDIS
    }

    /** How the sockets of asynchronous requests are polled. */
    public enum Transport {
        /** epoll if its native library can be loaded, otherwise the JDK's selector. */
        AUTO,
        /** Linux epoll. */
        EPOLL,
        /** Linux io_uring. */
        IO_URING,
        /** The JDK's selector. */
        NIO
    }

    private Discovery discovery = Discovery.fixed(List.of(Node.of("127.0.0.1", Node.PORT)));
    private boolean single = true;
    private @Nullable MemoryStore memory;
    private Mode mode = Mode.SHARDED;
    private Protocol protocol = Protocol.MEMCACHED;
    private Duration timeout = Duration.ofSeconds(1);
    private Duration connectTimeout = Duration.ofSeconds(2);
    private Duration backoffMin = Duration.ofMillis(50);
    private Duration backoffMax = Duration.ofSeconds(5);
    private int connections = 1;
    private int blockingConnections = Math.max(1, Runtime.getRuntime().availableProcessors() / 4);
    private int threads = Math.max(1, Math.min(4, Runtime.getRuntime().availableProcessors() / 2));
    private boolean checkedConnections;
    private boolean nagle;
    private int inFlightMax = 16384;
    private int replicationQueueMax = 100_000;
    private Transport transport = Transport.AUTO;
    private @Nullable SSLContext tls;
    private @Nullable String user;
    private @Nullable String password;
    private @Nullable LocalCacheOptions localCache;
    private CacheMetrics metrics = CacheMetrics.NONE;
    private LongSupplier ticker = System::nanoTime;

    CacheClientBuilder() {}

    /** Sets the nodes, at least one, each in the syntax of {@link Node#parse}. */
    public CacheClientBuilder nodes(String... nodes) {
        return nodes(Arrays.stream(nodes).map(Node::parse).toList());
    }

    /** Sets the nodes, at least one. */
    public CacheClientBuilder nodes(List<Node> nodes) {
        if (nodes.isEmpty()) {
            throw new IllegalArgumentException("a cache needs a node");
        }
        single = nodes.size() == 1;
        memory = null;
        discovery = Discovery.fixed(nodes);
        return this;
    }

    /** Sets a source of nodes that may change. */
    public CacheClientBuilder discovery(Discovery discovery) {
        this.discovery = discovery;
        single = false;
        memory = null;
        return this;
    }

    /**
     * Keeps all items in this process, without nodes: for unit tests of applications. Every method
     * behaves as with memcached, including leases and versions. There are two differences: nothing
     * is evicted, and a stage is complete when the call returns, unless it waits for another
     * caller's load. Items expire by the {@link #ticker}. Clients of one builder share their items,
     * as processes share a server. Settings of nodes and connections have no effect.
     */
    public CacheClientBuilder inMemory() {
        single = true;
        memory = new MemoryStore();
        return this;
    }

    /** Sets how keys are distributed over several nodes. Default: {@link Mode#SHARDED}. */
    public CacheClientBuilder mode(Mode mode) {
        this.mode = mode;
        return this;
    }

    /**
     * Sets the protocol of the servers. Default: {@link Protocol#MEMCACHED}. The Redis protocol
     * does not store flags, so codecs that need them cannot be used, and nodes cannot be
     * replicated.
     */
    public CacheClientBuilder protocol(Protocol protocol) {
        this.protocol = protocol;
        return this;
    }

    /** Sets the time-out of a request, from the call to the answer. Default: 1 second. */
    public CacheClientBuilder timeout(Duration timeout) {
        this.timeout = positive(timeout);
        return this;
    }

    /** Sets the time-out of connecting. Default: 2 seconds. */
    public CacheClientBuilder connectTimeout(Duration connectTimeout) {
        this.connectTimeout = positive(connectTimeout);
        return this;
    }

    /**
     * Sets the pause after a failed connection. It starts at {@code min} and doubles with each
     * further failure up to {@code max}; the client waits a random time between half of it and all
     * of it. Default: 50 ms to 5 s.
     */
    public CacheClientBuilder backoff(Duration min, Duration max) {
        backoffMin = positive(min);
        backoffMax = positive(max);
        return this;
    }

    /** Sets the connections to each node for asynchronous requests. Default: 1. */
    public CacheClientBuilder connections(int connections) {
        this.connections = positive(connections);
        return this;
    }

    /**
     * Sets the connections to each node for blocking calls. Default: a quarter of the processors.
     */
    public CacheClientBuilder blockingConnections(int connections) {
        this.blockingConnections = positive(connections);
        return this;
    }

    /** Sets the threads for asynchronous requests. Default: half of the processors, at most 4. */
    public CacheClientBuilder threads(int threads) {
        this.threads = positive(threads);
        return this;
    }

    /**
     * Sets whether a connection is checked before it sends requests of blocking calls. The client
     * sends the server a command without effect and waits for the reply, so no request is sent or
     * lost on a dead connection. Callers that are about to send share one check; it costs a round
     * trip. Default: false. A connection that was idle for a second is always checked for a close
     * by the server, without a round trip.
     */
    public CacheClientBuilder checkedConnections(boolean checked) {
        this.checkedConnections = checked;
        return this;
    }

    /** Sets whether Nagle's algorithm may delay small requests. Default: false. */
    public CacheClientBuilder nagle(boolean nagle) {
        this.nagle = nagle;
        return this;
    }

    /**
     * Sets the limit of unanswered requests on each connection to a node. Further ones fail with
     * {@link CacheException.Overloaded}. Default: 16384.
     */
    public CacheClientBuilder inFlightMax(int inFlightMax) {
        this.inFlightMax = positive(inFlightMax);
        return this;
    }

    /**
     * Sets the limit of changes that are queued for replication to a node. If it is exceeded, the
     * node is emptied and filled again before it is read. Default: 100,000.
     */
    public CacheClientBuilder replicationQueueMax(int replicationQueueMax) {
        this.replicationQueueMax = positive(replicationQueueMax);
        return this;
    }

    /** Sets how sockets are polled. Default: {@link Transport#AUTO}. */
    public CacheClientBuilder transport(Transport transport) {
        this.transport = transport;
        return this;
    }

    /**
     * Encrypts all connections. The server's certificate must match the host of the node. A context
     * with keys presents a certificate to servers that request one. Not for UNIX sockets.
     */
    public CacheClientBuilder tls(SSLContext tls) {
        this.tls = tls;
        return this;
    }

    /**
     * Authenticates each connection. Over the memcached protocol this is the ASCII authentication
     * of Cellar and of memcached with {@code --auth-file}, over the Redis protocol {@code AUTH}.
     * The invalidation connection uses the same credentials, unless {@link
     * LocalCacheOptions#password} sets others.
     *
     * @throws IllegalArgumentException if {@code user} is empty or contains white space, or {@code
     *     password} contains line ends
     */
    public CacheClientBuilder credentials(String user, String password) {
        if (!user.matches("\\S+") || password.matches("(?s).*[\r\n].*")) {
            throw new IllegalArgumentException("not a user, or not a password: " + user);
        }
        this.user = user;
        this.password = password;
        return this;
    }

    /** Keeps local copies, for {@link CacheClient#get(String, Duration)}. */
    public CacheClientBuilder localCache(LocalCacheOptions localCache) {
        this.localCache = localCache;
        return this;
    }

    /** Sets the receiver of metrics. */
    public CacheClientBuilder metrics(CacheMetrics metrics) {
        this.metrics = metrics;
        return this;
    }

    /**
     * Sets the clock, in nanoseconds, of the local cache, of replicated nodes and of items
     * {@linkplain #inMemory in memory}; for tests.
     */
    public CacheClientBuilder ticker(LongSupplier ticker) {
        this.ticker = ticker;
        return this;
    }

    /**
     * Builds the client. It opens connections when they are first needed.
     *
     * @throws CacheException.Configuration if the transport is not available, the nodes cannot be
     *     found, or the settings contradict each other
     */
    public <V> CacheClient<V> build(Codec<V> codec) {
        if (protocol == Protocol.REDIS && mode == Mode.REPLICATED) {
            throw new CacheException.Configuration(
                    "mode REPLICATED does not support protocol REDIS", null);
        }
        if (protocol == Protocol.REDIS && memory != null) {
            throw new CacheException.Configuration(
                    "inMemory does not support protocol REDIS", null);
        }
        if (protocol != Protocol.REDIS && mode == Mode.SLOTS) {
            throw new CacheException.Configuration("mode SLOTS needs protocol REDIS", null);
        }
        Settings settings =
                new Settings(
                        timeout,
                        connectTimeout,
                        backoffMin,
                        backoffMax,
                        connections,
                        blockingConnections,
                        checkedConnections,
                        nagle,
                        inFlightMax,
                        tls,
                        user,
                        password,
                        protocol == Protocol.REDIS,
                        metrics,
                        null);
        Loops loops = loops();
        try {
            Function<Node, Endpoint> connect = node -> new Endpoint(node, settings, loops);
            Membership membership = new Membership(discovery);
            membership.first().forEach(this::check);
            Cluster cluster = cluster(membership, connect, settings, loops);
            Core core = new Core(cluster, loops, settings, ticker, membership::close);
            return new AsyncView<>(core, codec, local(core));
        } catch (RuntimeException e) {
            loops.close();
            throw e;
        }
    }

    /** Rejects settings that a UNIX socket does not support. */
    private void check(Node node) {
        if (node.socketFile() == null) {
            return;
        }
        if (tls != null) {
            throw new CacheException.Configuration(
                    "TLS is for nodes with a port, not for " + node.address(), null);
        }
        boolean told = localCache != null && localCache.trackingPort() != 0;
        if (told && protocol != Protocol.REDIS) {
            throw new CacheException.Configuration(
                    node.address()
                            + " has no tracking port: use protocol REDIS, or copies that are confirmed",
                    null);
        }
    }

    private Loops loops() {
        try {
            return new Loops(Loops.Transport.valueOf(transport.name()), threads);
        } catch (IllegalStateException e) {
            throw new CacheException.Configuration(
                    "no transport " + transport + ": " + e.getMessage(), e);
        }
    }

    private Cluster cluster(
            Membership membership,
            Function<Node, Endpoint> connect,
            Settings settings,
            Loops loops) {
        if (mode == Mode.SLOTS) {
            return new SlotCluster(connect, membership.first(), loops);
        }
        if (memory != null) {
            return new SingleCluster(new MemoryEndpoint(memory, ticker, settings, loops));
        }
        if (single) {
            return new SingleCluster(connect.apply(membership.first().get(0)));
        }
        if (mode == Mode.REPLICATED) {
            ReplicatedCluster replicated =
                    new ReplicatedCluster(settings, loops, replicationQueueMax, ticker);
            replicated.use(membership.first());
            membership.follow(replicated::use);
            return replicated;
        }
        ShardedCluster sharded = new ShardedCluster(connect, mode == Mode.SHARDED_WITH_FAILOVER);
        sharded.use(membership.first());
        membership.follow(sharded::use);
        return sharded;
    }

    private @Nullable LocalCache local(Core core) {
        LocalCacheOptions options = localCache;
        if (options == null) {
            return null;
        }
        if (memory != null) {
            // Nothing sends invalidations in memory.
            options =
                    new LocalCacheOptions(
                            options.bytesMax(), options.localTtl(), 0, Map.of(), null);
        }
        return RespTracking.cache(core, options);
    }

    private static Duration positive(Duration duration) {
        if (duration.isNegative() || duration.isZero()) {
            throw new IllegalArgumentException("not a positive duration: " + duration);
        }
        return duration;
    }

    private static int positive(int number) {
        if (number < 1) {
            throw new IllegalArgumentException("not a positive number: " + number);
        }
        return number;
    }
}
