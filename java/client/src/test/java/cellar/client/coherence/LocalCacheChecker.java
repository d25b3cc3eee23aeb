package cellar.client.coherence;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.CacheException;
import cellar.client.Codecs;
import cellar.client.LoadOptions;
import cellar.client.LocalCacheOptions;
import cellar.client.Node;
import cellar.client.testing.Cable;
import cellar.client.testing.Server;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Reads through local caches while others write and connections to the server break. Compares each
 * read with the writes that were acknowledged before it began.
 *
 * <p>One thread writes all keys over an undisturbed connection. Two clients read them through local
 * caches and cables, one thread each. Each also has keys that it alone changes, and must see its
 * own changes at once.
 */
final class LocalCacheChecker extends CoherenceChecker<LocalCacheChecker.Fault> {
    /** Faults of the server and of the readers' connections. */
    enum Fault {
        /** All connections are closed. */
        CUT,
        /** The invalidation connection stays open, but carries nothing. */
        SILENCE,
        /** The server is stopped. */
        FREEZE,
        /** The server is killed and restarts empty. */
        KILL
    }

    /** The server under test. */
    enum Origin {
        CELLAR,
        MEMCACHED,
        REDIS
    }

    /**
     * The plan of a check.
     *
     * @param localTtl of each read
     * @param bound maximum age of a value that is read
     * @param ticker the clock of local caches
     * @param deaf whether clients get invalidations from a server whose items nobody changes
     */
    record Plan(
            Origin origin,
            Set<Fault> faults,
            Duration localTtl,
            Duration bound,
            LongSupplier ticker,
            boolean deaf) {}

    private static final int KEYS = 40;
    private static final int READERS = 2;
    private static final long WRITE_PAUSE_MS = 1;
    private static final Duration ITEM_TTL = Duration.ofHours(1);

    private final Plan plan;
    private final int port = Server.freePort();
    private final int respPort = Server.freePort();
    private final @Nullable Server elsewhere;
    private final List<Cable> cables = new ArrayList<>();
    private final List<Cable> tracking = new ArrayList<>();
    private final List<CacheClient<String>> clients = new ArrayList<>();
    private final Map<String, History> histories = new ConcurrentHashMap<>();

    /** When a server last lost its items; in the future while one is about to. */
    private volatile long lost_ns = System.nanoTime();

    private Server server;

    LocalCacheChecker(Plan plan, long seed) throws Exception {
        super(Fault.class, plan.faults, seed);
        this.plan = plan;
        server = start();
        elsewhere = plan.deaf ? Server.start(Server.Kind.CELLAR) : null;
        clients.add(client(Node.of("127.0.0.1", server.port()), null));
        for (int i = 0; i < READERS; i++) {
            Cable data = new Cable(server.port());
            Cable told = new Cable(elsewhere == null ? server.respPort() : elsewhere.respPort());
            cables.add(data);
            cables.add(told);
            tracking.add(told);
            LocalCacheOptions options =
                    plan.origin == Origin.MEMCACHED
                            ? LocalCacheOptions.confirmed(1 << 20)
                            : LocalCacheOptions.tracked(1 << 20, told.port());
            clients.add(client(Node.of("127.0.0.1", data.port()), options));
        }
    }

    private Server start() throws Exception {
        return switch (plan.origin) {
            case CELLAR -> Server.cellar(port, respPort);
            case MEMCACHED -> Server.memcached(port);
            case REDIS -> Server.redis(port);
        };
    }

    private CacheClient<String> client(Node node, @Nullable LocalCacheOptions options) {
        CacheClientBuilder builder =
                CacheClient.builder()
                        .nodes(List.of(node))
                        .backoff(Duration.ofMillis(5), Duration.ofMillis(50))
                        .ticker(plan.ticker);
        if (plan.origin == Origin.REDIS) {
            builder.protocol(CacheClientBuilder.Protocol.REDIS);
        }
        if (options == null) {
            // Longer than any freeze, so that no write times out and is executed later.
            builder.timeout(Duration.ofSeconds(60));
        } else {
            builder.localCache(options).timeout(Duration.ofMillis(500));
        }
        return builder.build(Codecs.string());
    }

    @Override
    void begin() {
        start("writer", () -> write(clients.get(0).blocking(), "shared", seed()));
        for (int i = 1; i <= READERS; i++) {
            BlockingCacheClient<String> cache = clients.get(i).blocking();
            String own = "own-" + i;
            start(own, () -> readAndWrite(cache, own, seed()));
        }
    }

    private long seed() {
        return random.nextLong();
    }

    @Override
    void disturb(Fault fault) throws Exception {
        switch (fault) {
            case CUT -> cables.forEach(Cable::cut);
            case SILENCE -> {
                tracking.forEach(cable -> cable.become(Cable.State.HELD));
                // paced: how long the fault lasts is drawn from the seed.
                Thread.sleep(500 + random.nextInt(3000));
                tracking.forEach(cable -> cable.become(Cable.State.WHOLE));
            }
            case FREEZE -> {
                server.signal("STOP");
                // paced: how long the fault lasts is drawn from the seed.
                Thread.sleep(100 + random.nextInt(1500));
                server.signal("CONT");
            }
            case KILL -> {
                // A read from the new server may miss correctly before this thread continues.
                lost_ns = System.nanoTime() + ITEM_TTL.toNanos();
                server.kill();
                server = start();
                lost_ns = System.nanoTime();
            }
        }
    }

    // Writers and readers.

    private void write(BlockingCacheClient<String> cache, String group, long seed) {
        Random choice = new Random(seed);
        while (!isOver()) {
            change(cache, group + choice.nextInt(KEYS), choice);
            pause();
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

    private static void pause() {
        try {
            // paced: the writer leaves processor time to the readers.
            Thread.sleep(WRITE_PAUSE_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** A key whose change had no answer is not used again: a server may execute it later. */
    private void readAndWrite(BlockingCacheClient<String> cache, String own, long seed) {
        Random choice = new Random(seed);
        int generation = 0;
        while (!isOver()) {
            for (int i = 0; i < 50; i++) {
                read(cache, "shared" + choice.nextInt(KEYS), plan.bound, choice);
            }
            String mine = own + "-" + generation + "-" + choice.nextInt(4);
            if (!change(cache, mine, choice)) {
                generation++;
            } else {
                read(cache, mine, Duration.ZERO, choice);
                read(cache, mine, Duration.ZERO, choice);
            }
        }
    }

    private void read(
            BlockingCacheClient<String> cache, String key, Duration bound, Random choice) {
        History history = histories.computeIfAbsent(key, same -> new History());
        long begin_ns = System.nanoTime();
        String value;
        try {
            value =
                    choice.nextInt(4) == 0
                            ? cache.getOrLoad(key, loading(), () -> null)
                            : cache.get(key, plan.localTtl);
        } catch (CacheException e) {
            failed();
            return;
        }
        int found = value == null ? 0 : Integer.parseInt(value);
        judge(history, found, begin_ns, bound, lost_ns);
    }

    private LoadOptions loading() {
        return LoadOptions.ttl(ITEM_TTL).localTtl(plan.localTtl).patience(Duration.ofMillis(100));
    }

    @Override
    public String toString() {
        return plan.origin + ": " + super.toString();
    }

    @Override
    public void close() throws IOException {
        clients.forEach(CacheClient::close);
        for (Cable cable : cables) {
            cable.close();
        }
        server.close();
        if (elsewhere != null) {
            elsewhere.close();
        }
    }
}
