package cellar.client.coherence;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.CacheException;
import cellar.client.Codecs;
import cellar.client.LocalCacheOptions;
import cellar.client.Node;
import cellar.client.internal.AsyncView;
import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.testing.Await;
import cellar.client.testing.Cable;
import cellar.client.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import org.jspecify.annotations.Nullable;

/**
 * Reads and writes of several clients with local caches over replicated nodes, which crash and come
 * back, freeze and are cut off. Compares each read with the writes that were acknowledged before
 * it.
 *
 * <p>Only one client changes each key, so its changes have an order. A key whose change had no
 * answer is not used again, because the change may still be executed; another key replaces it.
 */
final class ReplicatedLocalCacheChecker
        extends CoherenceChecker<ReplicatedLocalCacheChecker.Fault> {
    /** Faults of nodes and connections. */
    enum Fault {
        /** A node is killed and restarts empty. */
        KILL,
        /** A node is stopped. */
        FREEZE,
        /** All connections of one client are closed. */
        CUT,
        /** One client gets no invalidations, on connections that stay open. */
        SILENCE
    }

    /**
     * The plan of a check.
     *
     * @param own maximum age of values that a client reads of its own keys
     * @param others maximum age of values that it reads of other keys
     * @param deaf whether clients get invalidations from a server whose items nobody changes
     */
    record Plan(Set<Fault> faults, Duration own, Duration others, boolean deaf) {}

    /** A key that only one client changes. */
    private record Key(String name, History history) {}

    private static final int NODES = 3;
    private static final int CLIENTS = 3;
    private static final int KEYS = 30;
    private static final int READS = 20;
    private static final Duration ITEM_TTL = Duration.ofHours(1);

    private final Plan plan;
    private final List<Server> servers = new CopyOnWriteArrayList<>();
    private final @Nullable Server elsewhere;
    private final List<List<Cable>> data = new ArrayList<>();
    private final List<List<Cable>> told = new ArrayList<>();
    private final List<CacheClient<String>> clients = new ArrayList<>();
    private final List<Key> keys = new CopyOnWriteArrayList<>();
    private final long begun_ns = System.nanoTime();

    ReplicatedLocalCacheChecker(Plan plan, long seed) throws Exception {
        super(Fault.class, plan.faults, seed);
        this.plan = plan;
        for (int i = 0; i < KEYS; i++) {
            keys.add(new Key("key-" + i + "-0", new History()));
        }
        elsewhere = plan.deaf ? Server.start(Server.Kind.CELLAR) : null;
        for (int i = 0; i < NODES; i++) {
            servers.add(Server.restartable());
        }
        for (int i = 0; i < CLIENTS; i++) {
            clients.add(client());
        }
    }

    private CacheClient<String> client() throws Exception {
        List<Cable> toData = new ArrayList<>();
        List<Cable> toTold = new ArrayList<>();
        List<Node> nodes = new ArrayList<>();
        Map<String, Integer> ports = new HashMap<>();
        for (int i = 0; i < NODES; i++) {
            toData.add(new Cable(servers.get(i).port()));
            toTold.add(
                    new Cable(
                            elsewhere == null ? servers.get(i).respPort() : elsewhere.respPort()));
            nodes.add(Node.of("127.0.0.1", toData.get(i).port()).name("node-" + i));
            ports.put("node-" + i, toTold.get(i).port());
        }
        data.add(toData);
        told.add(toTold);
        return CacheClient.builder()
                .nodes(nodes)
                .mode(CacheClientBuilder.Mode.REPLICATED)
                .timeout(Duration.ofMillis(500))
                .backoff(Duration.ofMillis(5), Duration.ofMillis(50))
                .localCache(
                        LocalCacheOptions.tracked(1 << 20, toTold.get(0).port())
                                .ports(ports)
                                .localTtl(ITEM_TTL))
                .build(Codecs.string());
    }

    @Override
    void begin() throws Exception {
        Await.until("all nodes are trusted", this::isWhole);
        for (int i = 0; i < CLIENTS; i++) {
            int client = i;
            Random choice = new Random(random.nextLong());
            start("client-" + i, () -> readAndWrite(client, choice));
        }
    }

    private boolean isWhole() {
        return clients.stream()
                .map(client -> ((AsyncView<String>) client).core().cluster())
                .allMatch(cluster -> ((ReplicatedCluster) cluster).isWhole());
    }

    @Override
    void disturb(Fault fault) throws Exception {
        int node = random.nextInt(NODES);
        int client = random.nextInt(CLIENTS);
        Server server = servers.get(node);
        switch (fault) {
            case KILL -> {
                server.kill();
                // paced: how long the node is away is drawn from the seed.
                Thread.sleep(random.nextInt(600));
                servers.set(node, Server.cellar(server.port(), server.respPort()));
            }
            case FREEZE -> {
                server.signal("STOP");
                // paced: how long the fault lasts is drawn from the seed.
                Thread.sleep(100 + random.nextInt(1500));
                server.signal("CONT");
            }
            case CUT -> {
                data.get(client).forEach(Cable::cut);
                told.get(client).forEach(Cable::cut);
            }
            case SILENCE -> {
                told.get(client).forEach(cable -> cable.become(Cable.State.HELD));
                // paced: how long the fault lasts is drawn from the seed.
                Thread.sleep(500 + random.nextInt(2500));
                told.get(client).forEach(cable -> cable.become(Cable.State.WHOLE));
            }
        }
        Await.until("all nodes are trusted again", this::isWhole);
    }

    // Readers and writers.

    private void readAndWrite(int client, Random choice) {
        BlockingCacheClient<String> cache = clients.get(client).blocking();
        for (int turn = 1; !isOver(); turn++) {
            for (int i = 0; i < READS; i++) {
                read(cache, keys.get(choice.nextInt(KEYS)), plan.others);
            }
            int number = client + CLIENTS * choice.nextInt(KEYS / CLIENTS);
            Key own = keys.get(number);
            if (change(cache, own, choice.nextInt(5) == 0)) {
                read(cache, own, plan.own);
                read(cache, own, plan.own);
            } else {
                keys.set(number, new Key("key-" + number + "-" + turn, new History()));
            }
        }
    }

    /** False if it is unknown whether the change was executed. */
    private boolean change(BlockingCacheClient<String> cache, Key key, boolean removal) {
        int number = key.history.begin(removal);
        try {
            if (removal) {
                cache.delete(key.name);
            } else {
                cache.set(key.name, "v" + number, ITEM_TTL);
            }
            key.history.acknowledged();
            return true;
        } catch (CacheException e) {
            failed();
            return false;
        }
    }

    private void read(BlockingCacheClient<String> cache, Key key, Duration bound) {
        long asked_ns = System.nanoTime();
        String value;
        try {
            value = cache.get(key.name);
        } catch (CacheException e) {
            failed();
            return;
        }
        int found = value == null ? 0 : Integer.parseInt(value.substring(1));
        judge(key.history, found, asked_ns, bound, begun_ns);
    }

    @Override
    public String toString() {
        return "replicated: " + super.toString();
    }

    @Override
    public void close() {
        clients.forEach(CacheClient::close);
        data.forEach(own -> own.forEach(Cable::close));
        told.forEach(own -> own.forEach(Cable::close));
        servers.forEach(Server::close);
        if (elsewhere != null) {
            elsewhere.close();
        }
    }
}
