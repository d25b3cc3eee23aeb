package cellar.client.replication;

import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.CacheException;
import cellar.client.Codecs;
import cellar.client.Discovery;
import cellar.client.Node;
import cellar.client.internal.AsyncView;
import cellar.client.internal.cluster.ReplicatedCluster;
import cellar.client.testing.Await;
import cellar.client.testing.Cable;
import cellar.client.testing.ChangingNodes;
import cellar.client.testing.Server;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;

/** Several clients with several servers that crash, freeze and are cut off: counts errors. */
final class Checker {
    /** Faults of servers and connections. */
    enum Fault {
        /** A server is killed and restarts empty. */
        KILL,
        /** A server is stopped for a while. */
        FREEZE,
        /** One client cannot reach a server for a while. */
        CUT,
        /** No client can reach a server for a while. */
        CUT_OFF,
        /** One client can reach no server for a while. */
        ALONE,
        /** A server ends, and another one has its name at another address. */
        MOVE,
        /** Messages between one client and a server are late, but none is lost. */
        LATE,
        /** One client is paused for a while: its threads stop anywhere. */
        STILL
    }

    /** The plan of a run; with a client that is broken on purpose the first error ends the run. */
    record Plan(
            Server.Kind kind,
            int nodes,
            int clients,
            int seconds,
            long seed,
            Set<Fault> faults,
            Broken broken) {
        Plan(Server.Kind kind, int nodes, int clients, int seconds, long seed) {
            this(kind, nodes, clients, seconds, seed, EnumSet.allOf(Fault.class), Broken.NOTHING);
        }

        boolean whole() {
            return broken == Broken.NOTHING;
        }
    }

    private static final String HOST = "127.0.0.1";
    private static final Duration TTL = Duration.ofHours(1);
    private static final int KEYS = 60;
    private static final int LOADS = 2;

    /** Less than the clients' time-out. */
    private static final int LATE_MS_MAX = 350;

    /** Time after a kill when a node is about to be filled, while changes must continue. */
    private static final int FILLED_MS = 700;

    private static final int COUNTERS = 10;

    /** One fault of this many is followed by a pause of a client. */
    private static final int THEN_STILL_ONE_OF = 3;

    private static final long QUIET_MS = 4_000;

    /** Time without changes before some faults, so that every copy must be right. */
    private static final long CALM_MS = 1_200;

    /** The difference between the clocks of two clients. */
    private static final long APART_NS = 5_000_000_000L;

    private final Plan plan;
    private final History.Faults faults = new History.Faults();
    private final List<Server> servers = new CopyOnWriteArrayList<>();

    /** For each client, one to each server. */
    private final List<List<Cable>> cables = new ArrayList<>();

    private final List<CacheClient<String>> clients = new ArrayList<>();

    /** Controls that pause each client's threads. */
    private final List<Standstill> standstills = new ArrayList<>();

    private final List<History> items = new ArrayList<>();
    private final List<Tally> counters = new ArrayList<>();
    private final AtomicBoolean stop = new AtomicBoolean();

    /** Whether there are no changes now. */
    private final AtomicBoolean calm = new AtomicBoolean();

    /** The faults, with their targets and times. */
    private final List<String> injected = new ArrayList<>();

    private Checker(Plan plan) {
        this.plan = plan;
        for (int i = 0; i < KEYS; i++) {
            items.add(new History("k" + i, faults, History.Bounds.REAL));
        }
        for (int i = 0; i < COUNTERS; i++) {
            counters.add(new Tally("n" + i, faults, History.Bounds.REAL));
        }
    }

    static History.Faults run(Plan plan) throws Exception {
        return new Checker(plan).run();
    }

    private History.Faults run() throws Exception {
        try {
            for (int i = 0; i < plan.nodes(); i++) {
                servers.add(start());
            }
            for (int i = 0; i < plan.clients(); i++) {
                clients.add(client(i));
            }
            List<Thread> load = new ArrayList<>();
            for (int i = 0; i < LOADS * plan.clients(); i++) {
                int number = i;
                load.add(new Thread(() -> load(number), "load-" + i));
            }
            load.forEach(Thread::start);
            inject();
            stop.set(true);
            for (Thread thread : load) {
                thread.join();
            }
            if (!plan.whole() && faults.sum() > 0) {
                print();
                return faults;
            }
            // paced: late messages may still arrive; only afterwards every copy must be right.
            Thread.sleep(QUIET_MS);
            for (int i = 0; i < plan.clients(); i++) {
                for (int k = 0; k < KEYS; k++) {
                    readItem(i, k);
                }
                for (int n = 0; n < COUNTERS; n++) {
                    readCounter(i, n);
                }
            }
        } finally {
            stop.set(true);
            clients.forEach(CacheClient::close);
            cables.forEach(own -> own.forEach(Cable::close));
            servers.forEach(Server::close);
        }
        print();
        return faults;
    }

    private void print() {
        System.out.printf(Locale.ROOT, "%s, %d faults: %s%n", plan, injected.size(), faults);
        if (plan.whole() && faults.sum() > 0) {
            injected.forEach(System.out::println);
        }
    }

    private Server start() throws Exception {
        return plan.kind() == Server.Kind.CELLAR ? Server.restartable() : Server.memcached(0);
    }

    private Server start(int port, int respPort) throws Exception {
        return plan.kind() == Server.Kind.CELLAR
                ? Server.cellar(port, respPort)
                : Server.memcached(port);
    }

    private CacheClient<String> client(int index) throws IOException {
        List<Cable> own = new CopyOnWriteArrayList<>();
        for (Server server : servers) {
            own.add(cable(server));
        }
        cables.add(own);
        long apart_ns = index * APART_NS;
        Standstill standstill = new Standstill();
        standstills.add(standstill);
        return CacheClient.builder()
                .discovery(discovery(own))
                .mode(CacheClientBuilder.Mode.REPLICATED)
                .timeout(Duration.ofMillis(500))
                .backoff(Duration.ofMillis(20), Duration.ofMillis(200))
                .ticker(() -> standstill.now_ns() + apart_ns)
                .build(Codecs.string());
    }

    private Cable cable(Server server) throws IOException {
        return new Cable(server.port(), plan.broken()::filter);
    }

    /** Names stay, addresses change. */
    private static Discovery discovery(List<Cable> cables) {
        return ChangingNodes.every(
                Duration.ofMillis(200),
                () ->
                        IntStream.range(0, cables.size())
                                .mapToObj(i -> new Node(HOST, cables.get(i).port(), 1, "node-" + i))
                                .toList());
    }

    // Load.

    private void load(int number) {
        int client = number / LOADS;
        Random random = new Random(plan.seed() * 31 + number);
        while (!stop.get()) {
            try {
                int choice = random.nextInt(100);
                if (choice < 45 || calm.get()) {
                    readItem(client, random.nextInt(KEYS));
                } else if (choice < 65) {
                    writeItem(client, random.nextInt(KEYS), false);
                } else if (choice < 80) {
                    writeItem(client, random.nextInt(KEYS), true);
                } else if (choice < 90) {
                    step(client, random.nextInt(COUNTERS));
                } else {
                    readCounter(client, random.nextInt(COUNTERS));
                }
                // paced: the load leaves processor time to the servers.
                Thread.sleep(1);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    private void readItem(int client, int item) {
        long begin_ns = System.nanoTime();
        try {
            String value = clients.get(client).blocking().get("k" + item);
            items.get(item).read("client " + client, begin_ns, value);
        } catch (CacheException e) {
            faults.failures.incrementAndGet();
        }
    }

    private void writeItem(int client, int item, boolean remove) {
        History history = items.get(item);
        History.Write write = history.begin(remove, "client " + client);
        boolean done = false;
        try {
            if (remove) {
                clients.get(client).blocking().delete("k" + item);
            } else {
                clients.get(client).blocking().set("k" + item, history.value(write), TTL);
            }
            done = true;
        } catch (CacheException e) {
            done = false;
        } finally {
            history.end(write, done);
        }
    }

    private void step(int client, int counter) {
        Tally tally = counters.get(counter);
        tally.begin();
        try {
            long number = clients.get(client).blocking().addOrIncrement("n" + counter, 1, TTL);
            tally.end("client " + client, number);
        } catch (CacheException e) {
            tally.failed();
        }
    }

    private void readCounter(int client, int counter) {
        Tally tally = counters.get(counter);
        long due = tally.due();
        try {
            Long number = clients.get(client).blocking().getCounter("n" + counter);
            tally.read("client " + client, due, number);
        } catch (CacheException e) {
            faults.failures.incrementAndGet();
        }
    }

    // Faults.

    private void inject() throws Exception {
        long end_ns = System.nanoTime() + plan.seconds() * 1_000_000_000L;
        Random random = new Random(plan.seed());
        List<Fault> kinds = List.copyOf(EnumSet.copyOf(plan.faults()));
        // paced: clients work between faults.
        Thread.sleep(1000);
        untilWhole();
        while (System.nanoTime() < end_ns && (plan.whole() || faults.sum() == 0)) {
            int node = random.nextInt(plan.nodes());
            long begin_ms = System.nanoTime() / 1_000_000;
            if (plan.whole()) {
                setCalm(random.nextBoolean());
                Fault fault = kinds.get(random.nextInt(kinds.size()));
                inject(fault, node, random);
                note(begin_ms, fault + " of node " + node);
                if (random.nextInt(THEN_STILL_ONE_OF) == 0 && plan.faults().contains(Fault.STILL)) {
                    // paced: reactions to the fault are in progress.
                    Thread.sleep(random.nextInt(1500));
                    standStill(random);
                }
                // paced: clients work between faults.
                Thread.sleep(1000);
            } else {
                provoke(node);
                injected.add(begin_ms + " ms: node " + node);
            }
            untilWhole();
            calm.set(false);
        }
    }

    private void note(long begin_ms, String what) {
        injected.add(begin_ms + " to " + System.nanoTime() / 1_000_000 + " ms: " + what);
    }

    private void standStill(Random random) throws InterruptedException {
        long begin_ms = System.nanoTime() / 1_000_000;
        int index = random.nextInt(plan.clients());
        Standstill standstill = standstills.get(index);
        standstill.begin(cluster(clients.get(index)));
        // paced: how long the fault lasts is drawn from the seed; sometimes longer than a claim.
        Thread.sleep(200 + random.nextInt(random.nextInt(4) == 0 ? 7000 : 2500));
        standstill.end();
        note(begin_ms, "client " + index + " stood still");
    }

    private void setCalm(boolean wanted) throws InterruptedException {
        calm.set(wanted);
        // paced: nothing changes for so long before some faults.
        Thread.sleep(wanted ? CALM_MS : 0);
    }

    /**
     * Exposes a broken rule: the homes of wrong copies, which later ones do not correct, are lost;
     * the node that they are copied to again is filled while items change.
     */
    private void provoke(int node) throws Exception {
        Server server = servers.get(node);
        // paced: about when a node is filled; changes continue meanwhile.
        Thread.sleep(FILLED_MS);
        setCalm(true);
        server.kill();
        servers.set(node, start(server.port(), server.respPort()));
        // paced: about when a node is filled; changes continue meanwhile.
        Thread.sleep(FILLED_MS);
        setCalm(false);
        untilWhole();
        setCalm(true);
    }

    private void inject(Fault fault, int node, Random random) throws Exception {
        Server server = servers.get(node);
        switch (fault) {
            case KILL -> {
                server.kill();
                // paced: how long the node is away is drawn from the seed.
                Thread.sleep(random.nextInt(600));
                servers.set(node, start(server.port(), server.respPort()));
            }
            case FREEZE -> {
                server.signal("STOP");
                // paced: how long the fault lasts is drawn from the seed.
                Thread.sleep(200 + random.nextInt(2500));
                server.signal("CONT");
            }
            case CUT -> cut(List.of(cables.get(random.nextInt(plan.clients())).get(node)), random);
            case CUT_OFF -> cut(cables.stream().map(own -> own.get(node)).toList(), random);
            case ALONE -> cut(cables.get(random.nextInt(plan.clients())), random);
            case LATE -> {
                Cable late = cables.get(random.nextInt(plan.clients())).get(node);
                late.become(Cable.State.HELD);
                // paced: how long the fault lasts is drawn from the seed.
                Thread.sleep(50 + random.nextInt(LATE_MS_MAX - 50));
                late.become(Cable.State.WHOLE);
            }
            case STILL -> standStill(random);
            case MOVE -> {
                server.kill();
                servers.set(node, start());
                for (List<Cable> own : cables) {
                    Cable old = own.set(node, cable(servers.get(node)));
                    old.close();
                    // paced: one client after the other learns the new address.
                    Thread.sleep(random.nextInt(300));
                }
            }
        }
    }

    private static void cut(List<Cable> cables, Random random) throws InterruptedException {
        Cable.State state = random.nextBoolean() ? Cable.State.CLOSED : Cable.State.SILENT;
        cables.forEach(cable -> cable.become(state));
        // paced: how long the fault lasts is drawn from the seed.
        Thread.sleep(200 + random.nextInt(2500));
        cables.forEach(cable -> cable.become(Cable.State.WHOLE));
    }

    /** Waits until every item has more than one copy, so that the next fault cannot lose it. */
    private void untilWhole() throws Exception {
        Await.until("the nodes are whole", () -> clients.stream().allMatch(Checker::isWhole));
    }

    private static boolean isWhole(CacheClient<String> client) {
        return cluster(client).isWhole();
    }

    private static ReplicatedCluster cluster(CacheClient<String> client) {
        return (ReplicatedCluster) ((AsyncView<String>) client).core().cluster();
    }

    /** For longer manual runs: server, nodes, clients, seconds, seed, and the broken rule. */
    public static void main(String[] words) throws Exception {
        Plan plan =
                new Plan(
                        Server.Kind.valueOf(words[0].toUpperCase(Locale.ROOT)),
                        Integer.parseInt(words[1]),
                        Integer.parseInt(words[2]),
                        Integer.parseInt(words[3]),
                        Long.parseLong(words[4]),
                        EnumSet.allOf(Fault.class),
                        words.length > 5
                                ? Broken.valueOf(words[5].toUpperCase(Locale.ROOT))
                                : Broken.NOTHING);
        System.exit(run(plan).sum() == 0 ? 0 : 1);
    }
}
