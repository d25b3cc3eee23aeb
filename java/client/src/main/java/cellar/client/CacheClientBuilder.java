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
 * Describes a {@link CacheClient} and makes it. Not safe for use by several threads; may be used
 * again after {@link #build}.
 */
public final class CacheClientBuilder {
    /** What several nodes are to each other. */
    public enum Mode {
        /** Each key is on one node, by ketama with weights. */
        SHARDED,
        /** The same, and the next node stands in for one that is down. */
        SHARDED_WITH_FAILOVER,
        /** Every node holds everything. */
        REPLICATED,
        /**
         * Each key is on the node that has its slot, in a cluster of Cellars or of Redis that says
         * so itself; over Redis's protocol. The nodes named are some of it.
         */
        SLOTS
    }

    /** What servers are spoken to in. */
    public enum Protocol {
        /** memcached's text protocol, meta commands where the server has them. */
        MEMCACHED,
        /** Redis's, version 2; versions, append, prepend and keys are refused then. */
        REDIS
    }

    /** How sockets of asynchronous requests are polled. */
    public enum Transport {
        /** epoll where its native part can be loaded, else the JDK's selector. */
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

    /** The nodes, at least one; each as {@link Node#parse} reads it. */
    public CacheClientBuilder nodes(String... nodes) {
        return nodes(Arrays.stream(nodes).map(Node::parse).toList());
    }

    /** The nodes, at least one. */
    public CacheClientBuilder nodes(List<Node> nodes) {
        if (nodes.isEmpty()) {
            throw new IllegalArgumentException("a cache needs a node");
        }
        single = nodes.size() == 1;
        memory = null;
        discovery = Discovery.fixed(nodes);
        return this;
    }

    /** Nodes that may change. */
    public CacheClientBuilder discovery(Discovery discovery) {
        this.discovery = discovery;
        single = false;
        memory = null;
        return this;
    }

    /**
     * Keeps all items in this process, in place of nodes: for unit tests of applications. Every
     * method does what it does over a memcached, leases and versions included, but nothing is
     * evicted, and stages are complete when the call returns, unless they wait for another caller's
     * load. Items end by the {@link #ticker}. Clients of one builder share their items, as
     * processes share a server's. What is said of nodes and connections has no effect.
     */
    public CacheClientBuilder inMemory() {
        single = true;
        memory = new MemoryStore();
        return this;
    }

    /** What several nodes are to each other; sharded unless said. */
    public CacheClientBuilder mode(Mode mode) {
        this.mode = mode;
        return this;
    }

    /**
     * What servers are spoken to in; memcached's protocol unless said. Over Redis's protocol flags
     * are not stored, so codecs that need them cannot be used, and nodes cannot be replicated.
     */
    public CacheClientBuilder protocol(Protocol protocol) {
        this.protocol = protocol;
        return this;
    }

    /** How long a request may take, from the call to the answer; a second unless said. */
    public CacheClientBuilder timeout(Duration timeout) {
        this.timeout = positive(timeout);
        return this;
    }

    /** How long a connection may take; two seconds unless said. */
    public CacheClientBuilder connectTimeout(Duration connectTimeout) {
        this.connectTimeout = positive(connectTimeout);
        return this;
    }

    /**
     * The pause after a failed connection: {@code min}, doubled with each further failure up to
     * {@code max}, of which a random half is taken off. 50 ms to 5 s unless said.
     */
    public CacheClientBuilder backoff(Duration min, Duration max) {
        backoffMin = positive(min);
        backoffMax = positive(max);
        return this;
    }

    /** Connections to each node for asynchronous requests; 1 unless said. */
    public CacheClientBuilder connections(int connections) {
        this.connections = positive(connections);
        return this;
    }

    /** Connections to each node for blocking calls; a quarter of the processors unless said. */
    public CacheClientBuilder blockingConnections(int connections) {
        this.blockingConnections = positive(connections);
        return this;
    }

    /** Threads for asynchronous requests; half of the processors, at most 4, unless said. */
    public CacheClientBuilder threads(int threads) {
        this.threads = positive(threads);
        return this;
    }

    /**
     * Before requests of blocking calls are sent, the server is asked for a sign of life and has
     * answered: over a connection that turns out to be dead no request is sent, nor lost. All who
     * are about to send share one question, which costs them a round trip. Not asked unless said:
     * after a second without use a connection is looked at anyway, without a round trip.
     */
    public CacheClientBuilder checkedConnections(boolean checked) {
        this.checkedConnections = checked;
        return this;
    }

    /** Whether the system may hold small requests back to send more at once; not unless said. */
    public CacheClientBuilder nagle(boolean nagle) {
        this.nagle = nagle;
        return this;
    }

    /**
     * Most requests to a node that wait for an answer, for each of its connections; further ones
     * fail with {@link CacheException.Overloaded}. 16384 unless said.
     */
    public CacheClientBuilder inFlightMax(int inFlightMax) {
        this.inFlightMax = positive(inFlightMax);
        return this;
    }

    /**
     * Most changes that wait to be replicated to a node; when there are more, the node is filled
     * anew before it is read again. 100,000 unless said.
     */
    public CacheClientBuilder replicationQueueMax(int replicationQueueMax) {
        this.replicationQueueMax = positive(replicationQueueMax);
        return this;
    }

    /** How sockets are polled; {@link Transport#AUTO} unless said. */
    public CacheClientBuilder transport(Transport transport) {
        this.transport = transport;
        return this;
    }

    /**
     * Encrypts all connections; the server's certificate must fit the node's host. A context with
     * keys shows a certificate to servers that ask for one. Not for socket files.
     */
    public CacheClientBuilder tls(SSLContext tls) {
        this.tls = tls;
        return this;
    }

    /**
     * Authenticates each connection: by text over memcached's protocol, as Cellar and a memcached
     * with {@code --auth-file} ask for, by AUTH over Redis's. The connection that is told of
     * changes does the same, unless {@link LocalCacheOptions#password} says otherwise.
     *
     * @throws IllegalArgumentException if {@code user} is empty or has blanks, or {@code password}
     *     line ends
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

    /** Who is told what the client does. */
    public CacheClientBuilder metrics(CacheMetrics metrics) {
        this.metrics = metrics;
        return this;
    }

    /**
     * The clock of the local cache, of replicated nodes and of items {@linkplain #inMemory in
     * memory}, in nanoseconds; for tests.
     */
    public CacheClientBuilder ticker(LongSupplier ticker) {
        this.ticker = ticker;
        return this;
    }

    /**
     * Makes the client. Connections are opened when they are first needed.
     *
     * @throws CacheException.Configuration if a transport or the nodes cannot be had
     */
    public <V> CacheClient<V> build(Codec<V> codec) {
        if (protocol == Protocol.REDIS && mode == Mode.REPLICATED) {
            throw new CacheException.Configuration(
                    "nodes of Redis's protocol cannot be replicated by this client", null);
        }
        if (protocol == Protocol.REDIS && memory != null) {
            throw new CacheException.Configuration(
                    "a client in memory is one of memcached's protocol", null);
        }
        if (protocol != Protocol.REDIS && mode == Mode.SLOTS) {
            throw new CacheException.Configuration(
                    "slots are for protocol REDIS: a cluster tells of them in that", null);
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

    /** What a socket file cannot have. */
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
            // Nobody tells of changes.
            options =
                    new LocalCacheOptions(
                            options.bytesMax(), options.localTtl(), 0, Map.of(), null);
        }
        return RespTracking.cache(core, options);
    }

    private static Duration positive(Duration duration) {
        if (duration.isNegative() || duration.isZero()) {
            throw new IllegalArgumentException("not a time to wait: " + duration);
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
