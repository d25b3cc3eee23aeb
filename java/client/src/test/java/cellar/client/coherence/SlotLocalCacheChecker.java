package cellar.client.coherence;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.CacheException;
import cellar.client.Codecs;
import cellar.client.LocalCacheOptions;
import cellar.client.testing.ClusterNodes;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Reads through local caches over a Cellar cluster while others write and slots move. Compares each
 * read with the writes that were acknowledged before it began.
 */
final class SlotLocalCacheChecker extends CoherenceChecker<SlotLocalCacheChecker.Fault> {
    /** Faults of the nodes. */
    enum Fault {
        /** A fourth node joins, or is removed from the list while it runs. */
        MOVE,
        /** A node is killed, removed from the list, restarted and listed again, empty. */
        KILL,
        /** A node is stopped. */
        FREEZE
    }

    private static final int KEYS = 60;
    private static final int READERS = 2;
    private static final Duration ITEM_TTL = Duration.ofHours(1);

    private final ClusterNodes nodes = new ClusterNodes(4, 3);
    private final Duration bound;
    private final List<CacheClient<String>> clients = new ArrayList<>();
    private final Map<String, History> histories = new ConcurrentHashMap<>();

    /** When nodes last lost their items; in the future while one is about to. */
    private volatile long lost_ns = System.nanoTime();

    SlotLocalCacheChecker(Duration bound, long seed) throws Exception {
        super(Fault.class, EnumSet.allOf(Fault.class), seed);
        this.bound = bound;
        for (int i = 0; i <= READERS; i++) {
            CacheClientBuilder builder =
                    CacheClient.builder()
                            .nodes(List.of(nodes.node(0), nodes.node(1), nodes.node(2)))
                            .protocol(CacheClientBuilder.Protocol.REDIS)
                            .mode(CacheClientBuilder.Mode.SLOTS)
                            .backoff(Duration.ofMillis(5), Duration.ofMillis(50));
            if (i == 0) {
                // Longer than any freeze, so that no write times out and is executed later.
                builder.timeout(Duration.ofSeconds(60));
            } else {
                builder.localCache(LocalCacheOptions.tracked(1 << 20, 1))
                        .timeout(Duration.ofMillis(500));
            }
            clients.add(builder.build(Codecs.string()));
        }
    }

    @Override
    void begin() {
        long first = random.nextLong();
        start("writer", () -> write(clients.get(0).blocking(), first));
        for (int i = 1; i <= READERS; i++) {
            BlockingCacheClient<String> cache = clients.get(i).blocking();
            String own = "own-" + i;
            long seed = random.nextLong();
            start(own, () -> readAndWrite(cache, own, seed));
        }
    }

    @Override
    void disturb(Fault fault) throws Exception {
        if (fault == Fault.FREEZE) {
            nodes.server(0).signal("STOP");
            // paced: how long the fault lasts is drawn from the seed.
            Thread.sleep(100 + random.nextInt(1500));
            nodes.server(0).signal("CONT");
            return;
        }
        lost_ns = System.nanoTime() + ITEM_TTL.toNanos();
        if (fault == Fault.MOVE) {
            nodes.list(3, !nodes.isListed(3));
        } else {
            nodes.kill(1);
        }
        lost_ns = System.nanoTime();
    }

    private void write(BlockingCacheClient<String> cache, long seed) {
        Random choice = new Random(seed);
        while (!isOver()) {
            change(cache, "shared" + choice.nextInt(KEYS), choice);
            try {
                // paced: the writer leaves processor time to the readers.
                Thread.sleep(1);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** False if it is unknown whether the change was executed. */
    private boolean change(BlockingCacheClient<String> cache, String key, Random choice) {
        History history = histories.computeIfAbsent(key, same -> new History());
        boolean removal = choice.nextInt(5) == 0;
        int number = history.begin(removal);
        try {
            if (removal) {
                cache.delete(key);
            } else {
                cache.set(key, "" + number, ITEM_TTL);
            }
            history.acknowledged();
            return true;
        } catch (CacheException e) {
            failed();
            return false;
        }
    }

    private void readAndWrite(BlockingCacheClient<String> cache, String own, long seed) {
        Random choice = new Random(seed);
        int generation = 0;
        while (!isOver()) {
            for (int i = 0; i < 50; i++) {
                read(cache, "shared" + choice.nextInt(KEYS), bound);
            }
            String mine = own + "-" + generation + "-" + choice.nextInt(4);
            if (!change(cache, mine, choice)) {
                generation++;
            } else {
                read(cache, mine, Duration.ZERO);
                read(cache, mine, Duration.ZERO);
            }
            try {
                // paced: readers leave processor time to the nodes
                Thread.sleep(1);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
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
