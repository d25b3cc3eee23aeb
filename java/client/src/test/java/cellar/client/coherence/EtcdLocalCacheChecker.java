package cellar.client.coherence;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.CacheException;
import cellar.client.Codecs;
import cellar.client.LocalCacheOptions;
import cellar.client.testing.Cable;
import cellar.client.testing.DeafEars;
import cellar.client.testing.DirectWriter;
import cellar.client.testing.EtcdNodes;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Reads through local caches over a Cellar cluster in etcd while nodes join, leave, freeze, crash
 * and are cut off. Compares each read with the writes that were acknowledged before it began.
 *
 * <p>Writers connect to the nodes directly, readers through cables.
 */
final class EtcdLocalCacheChecker extends CoherenceChecker<EtcdLocalCacheChecker.Fault> {
    /** Faults of nodes and connections. */
    enum Fault {
        /** A fourth node joins, or leaves when it gets a signal to end. */
        MOVE,
        /** A node is stopped for longer than its lease, until others own its slots. */
        STOP,
        /** A node is killed, and restarts when others own its slots. */
        KILL,
        /** A node is cut off from etcd, but not from its clients, until others own its slots. */
        CUT_OFF,
        /** All connections of the readers are closed. */
        CUT,
        /** The connections of the readers stay open, but carry nothing for a while. */
        SILENCE
    }

    private static final int WRITERS = 3;
    private static final int READERS = 2;
    private static final int KEYS_EACH = 20;
    private static final int READS = 20;
    private static final Duration ITEM_TTL = Duration.ofHours(1);

    private final EtcdNodes nodes;
    private final Duration bound;
    private final List<CacheClient<String>> clients = new ArrayList<>();
    private final Map<String, History> histories = new ConcurrentHashMap<>();

    /** When nodes last lost their items; in the future while one is about to. */
    private volatile long lost_ns = System.nanoTime();

    /** With {@code deaf}, clients receive nothing about moved slots, as broken ones. */
    EtcdLocalCacheChecker(Set<Fault> faults, Duration bound, boolean deaf, long seed)
            throws Exception {
        super(Fault.class, faults, seed);
        this.bound = bound;
        AtomicReference<byte @Nullable []> map = new AtomicReference<>();
        nodes = new EtcdNodes(4, () -> deaf ? new DeafEars(map) : new Cable.Filter() {});
        for (int i = 0; i < READERS; i++) {
            clients.add(
                    CacheClient.builder()
                            .nodes(List.of(nodes.node(0), nodes.node(1), nodes.node(2)))
                            .protocol(CacheClientBuilder.Protocol.REDIS)
                            .mode(CacheClientBuilder.Mode.SLOTS)
                            .backoff(Duration.ofMillis(5), Duration.ofMillis(50))
                            .localCache(LocalCacheOptions.tracked(1 << 20, 1))
                            .timeout(Duration.ofMillis(500))
                            .build(Codecs.string()));
        }
    }

    @Override
    boolean needsEach() {
        return true;
    }

    @Override
    void begin() {
        for (int i = 0; i < WRITERS; i++) {
            long seed = random.nextLong();
            String group = "shared-" + i + "-";
            start("writer-" + i, () -> write(group, seed));
        }
        for (int i = 0; i < READERS; i++) {
            BlockingCacheClient<String> cache = clients.get(i).blocking();
            String own = "own-" + i;
            long seed = random.nextLong();
            start(own, () -> readAndWrite(cache, own, seed));
        }
    }

    @Override
    void disturb(Fault fault) throws Exception {
        switch (fault) {
            case CUT -> {
                nodes.cables().forEach(Cable::cut);
                return;
            }
            case SILENCE -> {
                nodes.cables().forEach(cable -> cable.become(Cable.State.HELD));
                // paced: how long the fault lasts is drawn from the seed.
                Thread.sleep(500 + random.nextInt(2500));
                nodes.cables().forEach(cable -> cable.become(Cable.State.WHOLE));
                return;
            }
            default -> lost_ns = System.nanoTime() + ITEM_TTL.toNanos();
        }
        int[] running = nodes.running();
        switch (fault) {
            case STOP -> {
                nodes.server(0).signal("STOP");
                nodes.settle(without(running, 0));
                // paced: clients read for a while while other nodes own its slots.
                Thread.sleep(200);
                nodes.server(0).signal("CONT");
            }
            case KILL -> {
                nodes.kill(1);
                nodes.settle(without(running, 1));
                // paced: clients read for a while while other nodes own its slots.
                Thread.sleep(200);
                nodes.start(1);
            }
            case CUT_OFF -> {
                nodes.cutOff(true);
                nodes.settle(without(running, 2));
                // paced: clients read for a while while other nodes own its slots.
                Thread.sleep(200);
                nodes.cutOff(false);
            }
            default -> {
                if (nodes.runs(3)) {
                    nodes.end(3);
                } else {
                    nodes.start(3);
                }
            }
        }
        nodes.settle(nodes.running());
        lost_ns = System.nanoTime();
    }

    private static int[] without(int[] nodes, int one) {
        return java.util.Arrays.stream(nodes).filter(node -> node != one).toArray();
    }

    private void write(String group, long seed) {
        Random choice = new Random(seed);
        try (DirectWriter writer = new DirectWriter(nodes)) {
            while (!isOver()) {
                String key = group + choice.nextInt(KEYS_EACH);
                History history = histories.computeIfAbsent(key, same -> new History());
                boolean removal = choice.nextInt(5) == 0;
                int number = history.begin(removal);
                if (writer.change(removal ? "DEL " + key : "SET " + key + " " + number)) {
                    history.acknowledged();
                } else {
                    failed();
                }
                // paced: the writers leave processor time to the readers.
                Thread.sleep(5);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** A key whose change had no answer is not used again: a server may execute it later. */
    private void readAndWrite(BlockingCacheClient<String> cache, String own, long seed) {
        Random choice = new Random(seed);
        int generation = 0;
        while (!isOver()) {
            for (int i = 0; i < READS; i++) {
                int group = choice.nextInt(WRITERS);
                read(cache, "shared-" + group + "-" + choice.nextInt(KEYS_EACH), bound);
            }
            String mine = own + "-" + generation + "-" + choice.nextInt(4);
            if (changeOwn(cache, mine)) {
                read(cache, mine, Duration.ZERO);
                read(cache, mine, Duration.ZERO);
            } else {
                generation++;
            }
            try {
                // paced: readers leave processor time to the nodes
                Thread.sleep(5);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private boolean changeOwn(BlockingCacheClient<String> cache, String key) {
        History history = histories.computeIfAbsent(key, same -> new History());
        int number = history.begin(false);
        try {
            cache.set(key, "" + number, ITEM_TTL);
            history.acknowledged();
            return true;
        } catch (CacheException e) {
            failed();
            return false;
        }
    }

    private void read(BlockingCacheClient<String> cache, String key, Duration bound) {
        History history = histories.computeIfAbsent(key, same -> new History());
        long begin_ns = System.nanoTime();
        try {
            String value = cache.get(key, ITEM_TTL);
            int found = value == null ? 0 : Integer.parseInt(value);
            judge(history, found, begin_ns, bound, lost_ns);
        } catch (CacheException e) {
            failed();
        }
    }

    @Override
    public void close() throws IOException {
        clients.forEach(CacheClient::close);
        nodes.close();
    }
}
