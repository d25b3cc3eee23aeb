package cellar.client.internal.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.wire.Mark.Kind;
import cellar.client.replication.History;
import cellar.client.replication.History.Bounds;
import cellar.client.replication.Tally;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.LongFunction;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Tests the rules of docs/java-replication.md with random schedules.
 *
 * <p>The client's own code decides; only servers, connections and time are simulated.
 */
class ReplicationModelTest {
    private static final Timing TIMING = new Timing(40, 80, 400, 100, 10, 20, 150, 400, 60_000);
    private static final Timing WITHOUT_LEASES =
            new Timing(40, 100_000, 0, 0, 10, 20, 150, 400, 60_000);
    private static final long SCHEDULES = Long.getLong("cellar.schedules", 20_000);
    private static final long FEW_SCHEDULES = 1_000;
    private static final long FEW_LONG_SCHEDULES = 200;
    private static final long BROKEN_SCHEDULES = 20_000;
    private static final int ITEMS = 2;

    /** Steps of 5 ms; longer than two pauses of a client. */
    private static final int SETTLE_STEPS_MAX = 5_000;

    /**
     * The times of a schedule.
     *
     * @param timeout_ms time-out of the clients
     * @param slow_ms maximum additional latency between some clients and servers
     * @param span_ms duration of the load
     * @param grace_ms additional age that a read may have
     */
    private record Pace(
            long timeout_ms, int slow_ms, int operations, int span_ms, int fault_ms, int grace_ms) {
        static final Pace USUAL = new Pace(25, 0, 14, 120, 80, 100);
        static final Pace SLOW = new Pace(150, 70, 40, 500, 80, 600);
        static final Pace LONG = new Pace(25, 0, 80, 700, 80, 100);
        static final Pace LONG_SLOW = new Pace(150, 70, 80, 1000, 80, 600);

        /** Allows reads to be {@code ms} older. */
        Pace later(int ms) {
            return new Pace(timeout_ms, slow_ms, operations, span_ms, fault_ms, grace_ms + ms);
        }

        static Pace of(long seed) {
            return seed % SLOW_ONE_OF == 0 ? SLOW : USUAL;
        }
    }

    /**
     * One schedule of this many is slow; a prime number, so that it combines with all other
     * variants.
     */
    private static final long SLOW_ONE_OF = 7;

    /** One schedule. */
    private static class Run {
        final Pace pace;
        final World world;
        final History.Faults faults = new History.Faults();
        final List<History> items = new ArrayList<>();
        final Tally counter;
        private boolean isAlone;

        Run(long seed, Timing timing, Set<World.Broken> broken) {
            this(seed, 2 + (int) (seed % 2), 2 + (int) (seed / 2 % 8 / 7), timing, broken);
        }

        Run(long seed, int servers, int clients, Timing timing, Set<World.Broken> broken) {
            this(seed, servers, clients, timing, broken, Pace.of(seed));
        }

        Run(
                long seed,
                int servers,
                int clients,
                Timing timing,
                Set<World.Broken> broken,
                Pace pace) {
            this.pace = pace;
            world = new World(seed, servers, clients, timing, pace.timeout_ms(), broken);
            Bounds bounds =
                    new Bounds(
                            () -> world.now_ms() * 1_000_000,
                            pace.grace_ms() * 1_000_000L,
                            10L * pace.grace_ms() * 1_000_000);
            for (int i = 0; i < ITEMS; i++) {
                items.add(new History("k" + i, faults, bounds));
            }
            counter = new Tally("n", faults, bounds);
        }

        History.Faults run() {
            settle();
            int number = world.clients.get(0).watch.homes().view().number();
            for (int i = 0; i < pace.operations(); i++) {
                world.later(world.random.nextInt(pace.span_ms()), this::operate);
            }
            slow();
            fault();
            // And until clients have noticed the fault, if they do.
            world.run(pace.span_ms() + pace.fault_ms() + pace.grace_ms());
            settle();
            isNobodyOut(number);
            world.run(pace.grace_ms());
            world.clients.forEach(this::readAll);
            world.run(20);
            if (faults.sum() == 0 && faults.failed() == 0) {
                agree();
            }
            return faults;
        }

        /** Runs until all nodes are in again. */
        void settle() {
            for (int i = 0; i < SETTLE_STEPS_MAX && !isSettled(); i++) {
                world.run(5);
            }
            if (!isSettled()) {
                List<View> views = world.clients.stream().map(c -> c.watch.homes().view()).toList();
                faults.add(faults.lost, "not whole: " + views);
            }
        }

        boolean isSettled() {
            return world.isWhole();
        }

        /** Makes the connections between some clients and servers slow for a while. */
        private void slow() {
            if (pace.slow_ms() == 0) {
                return;
            }
            for (World.Client client : world.clients) {
                for (World.Server server : world.servers) {
                    if (world.random.nextBoolean()) {
                        client.slow.put(server.name, pace.slow_ms());
                        world.later(pace.span_ms(), () -> client.slow.remove(server.name));
                    }
                }
            }
        }

        void fault() {
            World.Server server = world.servers.get(world.random.nextInt(world.servers.size()));
            World.Client client = world.clients.get(world.random.nextInt(world.clients.size()));
            long at_ms = world.random.nextInt(pace.span_ms() / (pace.slow_ms() > 0 ? 4 : 1));
            long until_ms = at_ms + 1 + world.random.nextInt(pace.fault_ms());
            switch (world.random.nextInt(4)) {
                case 0 -> {
                    world.later(at_ms, server::kill);
                    world.later(until_ms, server::restart);
                }
                case 1 -> {
                    world.later(at_ms, server::freeze);
                    world.later(until_ms, server::thaw);
                }
                case 2 -> {
                    world.later(at_ms, () -> client.cut.add(server.name));
                    world.later(until_ms, () -> client.cut.remove(server.name));
                }
                default -> {
                    isAlone = true;
                    world.later(at_ms, () -> world.servers.forEach(s -> client.cut.add(s.name)));
                    world.later(until_ms, client.cut::clear);
                }
            }
        }

        /** A client that gets no answers must not declare any node out. */
        private void isNobodyOut(int before) {
            int after = world.clients.get(0).watch.homes().view().number();
            if (isAlone && pace.slow_ms() == 0 && after != before) {
                faults.add(faults.lost, "a client alone put nodes out: " + (after - before));
            }
        }

        private void operate() {
            List<World.Client> open =
                    world.clients.stream()
                            .filter(client -> !client.isClosing && !client.isStill())
                            .toList();
            if (open.isEmpty()) {
                return;
            }
            World.Client client = open.get(world.random.nextInt(open.size()));
            int item = world.random.nextInt(ITEMS);
            switch (world.random.nextInt(6)) {
                case 0, 1 -> read(client, item);
                case 2 -> write(client, item, true);
                case 3 -> step(client);
                default -> write(client, item, false);
            }
        }

        private void read(World.Client client, int item) {
            long begin_ns = world.now_ms() * 1_000_000;
            client.get("k" + item)
                    .thenAccept(value -> items.get(item).read(client.name, begin_ns, value));
        }

        private void write(World.Client client, int item, boolean remove) {
            History history = items.get(item);
            History.Write write = history.begin(remove, client.name);
            byte[] value = history.value(write).getBytes(StandardCharsets.US_ASCII);
            client.pending++;
            Edit<Boolean> edit =
                    remove
                            ? new Edit.Decide<>(
                                    found -> new Edit.Decision<>(Item.gone(), true), true, true)
                            : new Edit.Put<>(Item.of(Kind.VALUE, value, 0, 3600), true);
            client.changes
                    .make(World.bytes("k" + item), edit)
                    .whenComplete(
                            (done, failure) -> {
                                client.pending--;
                                history.end(write, failure == null);
                            });
        }

        void step(World.Client client) {
            counter.begin();
            client.pending++;
            client.changes
                    .make(World.bytes("n"), new Edit.Count(1, false, 1, 3600))
                    .whenComplete(
                            (number, failure) -> {
                                client.pending--;
                                if (failure == null) {
                                    counter.end(client.name, number);
                                } else {
                                    counter.failed();
                                }
                            });
        }

        private void readAll(World.Client client) {
            for (int i = 0; i < ITEMS; i++) {
                read(client, i);
            }
            long due = counter.due();
            client.get("n")
                    .thenAccept(
                            value ->
                                    counter.read(
                                            client.name,
                                            due,
                                            value == null ? null : Long.valueOf(value)));
        }

        /** Returns the servers that are in use at the end. */
        List<World.Server> servers() {
            return world.servers;
        }

        /**
         * At the end all nodes have the same items; failed changes may have been executed anywhere.
         */
        private void agree() {
            for (String key : List.of("k0", "k1", "n")) {
                Set<String> values = new HashSet<>();
                servers().forEach(server -> values.add(String.valueOf(server.live(key))));
                if (values.size() != 1) {
                    faults.add(faults.lost, key + " is " + values);
                }
            }
        }
    }

    /**
     * A schedule in which one or two of three servers fail several times. They are filled while
     * items change and clients are paused.
     */
    private static final class LongRun extends Run {
        private static final int SERVERS = 3;
        private static final int FAULTS = 4;
        private static final int STILL_MS_MAX = 500;

        /** Longer than the claim on a node lasts. */
        private static final int LONG_MS_MAX = 7_000;

        private final boolean oneServer;

        LongRun(long seed, Timing timing) {
            super(seed, SERVERS, 2 + (int) (seed % 2), timing, Set.of(), pace(seed));
            oneServer = oneServer(seed);
        }

        private static boolean oneServer(long seed) {
            return seed / 2 % 2 == 0;
        }

        /**
         * If a home fails while the next one is stopped, that gets its copies when it continues. If
         * two servers fail, none is slow as well: clients that disagree about the last one declare
         * all of them out.
         */
        private static Pace pace(long seed) {
            if (!oneServer(seed)) {
                return Pace.LONG.later(Pace.LONG.fault_ms() + World.THAW_MS);
            }
            return seed % SLOW_ONE_OF == 0 ? Pace.LONG_SLOW : Pace.LONG;
        }

        /** The requests that paused clients have begun are executed in the end, too. */
        @Override
        boolean isSettled() {
            return world.clients.stream().allMatch(client -> !client.isStill() && client.isIdle())
                    && super.isSettled();
        }

        /**
         * The last step of a counter may be lost if a home fails together with the next one. That
         * is out if it does not answer a client in time.
         */
        @Override
        void step(World.Client client) {
            if (oneServer && pace.slow_ms() == 0) {
                super.step(client);
            }
        }

        @Override
        void fault() {
            int first = world.random.nextInt(SERVERS);
            for (int i = 0; i < FAULTS; i++) {
                int at_ms = world.random.nextInt(pace.span_ms());
                int for_ms = 1 + world.random.nextInt(pace.fault_ms());
                int number = first + (oneServer ? 0 : world.random.nextInt(2));
                World.Server server = world.servers.get(number % SERVERS);
                switch (world.random.nextInt(3)) {
                    case 0 -> {
                        world.later(at_ms, server::kill);
                        world.later(at_ms + for_ms, server::restart);
                    }
                    case 1 -> {
                        world.later(at_ms, server::freeze);
                        world.later(at_ms + for_ms, server::thaw);
                    }
                    default -> standStill(at_ms);
                }
            }
        }

        private void standStill(int at_ms) {
            int most_ms = world.random.nextInt(4) == 0 ? LONG_MS_MAX : STILL_MS_MAX;
            int still_ms = 1 + world.random.nextInt(most_ms);
            World.Client client = world.clients.get(world.random.nextInt(world.clients.size()));
            world.later(at_ms, () -> client.standStill(still_ms));
        }
    }

    /** A schedule in which clients restart with other nodes, one after the other. */
    private static final class ListRun extends Run {
        private static final int SERVERS = 4;

        private final List<World.Server> before;
        private final List<World.Server> after;
        private final Set<World.Server> gone = new HashSet<>();
        private final int clients;

        ListRun(long seed, Timing timing, Set<World.Broken> broken) {
            super(seed, SERVERS, 0, timing, broken);
            World.Server common = world.servers.get(world.random.nextInt(SERVERS));
            before = list(common);
            after = list(common);
            gone.addAll(before);
            after.forEach(gone::remove);
            clients = 1 + world.random.nextInt(3);
            for (int i = 0; i < clients; i++) {
                world.add("c" + i, before).start();
            }
        }

        /** Returns some servers, including {@code common}. */
        private List<World.Server> list(World.Server common) {
            return world.servers.stream()
                    .filter(server -> server == common || world.random.nextBoolean())
                    .toList();
        }

        @Override
        List<World.Server> servers() {
            return after;
        }

        /** The last step of a counter may be lost if a home fails together with the next one. */
        @Override
        void step(World.Client client) {
            if (gone.size() < 2) {
                super.step(client);
            }
        }

        @Override
        void fault() {
            for (World.Client client : List.copyOf(world.clients)) {
                world.later(world.random.nextInt(pace.span_ms()), () -> restart(client));
            }
            List<World.Server> common = before.stream().filter(after::contains).toList();
            World.Server server = world.servers.get(world.random.nextInt(SERVERS));
            boolean spare = common.size() > 1 || !common.contains(server);
            if (spare && world.random.nextBoolean()) {
                gone.add(server);
                int at_ms = world.random.nextInt(pace.span_ms());
                world.later(at_ms, server::kill);
                world.later(at_ms + world.random.nextInt(pace.fault_ms()), server::restart);
            }
        }

        private void restart(World.Client client) {
            client.close(
                    () ->
                            world.later(
                                    world.random.nextInt(pace.span_ms()),
                                    () -> world.add(client.name + "'", after).start()));
        }

        @Override
        boolean isSettled() {
            return world.clients.size() == clients
                    && world.clients.stream().allMatch(World.Client::isIdle)
                    && super.isSettled();
        }
    }

    static String check(long from, long count, Timing timing, Set<World.Broken> broken) {
        return check(from, count, seed -> new Run(seed, timing, broken));
    }

    private static String check(long from, long count, LongFunction<Run> runs) {
        return LongStream.range(from, from + count)
                .parallel()
                .mapToObj(
                        seed -> {
                            History.Faults faults = runs.apply(seed).run();
                            return faults.sum() == 0 ? "" : "schedule " + seed + ": " + faults;
                        })
                .filter(text -> !text.isEmpty())
                .findFirst()
                .orElse("");
    }

    @Test
    void underAFewSchedulesNothingIsLostAndNothingComesBack() {
        assertEquals("", check(0, FEW_SCHEDULES, TIMING, Set.of()));
    }

    @Test
    @Tag("deep")
    void underAnyScheduleNothingIsLostAndNothingComesBack() {
        assertEquals("", check(0, SCHEDULES, TIMING, Set.of()));
    }

    @Test
    void whenAFewClientsAreStartedWithAnotherListNothingIsLostAndNothingComesBack() {
        assertEquals("", check(0, FEW_SCHEDULES, seed -> new ListRun(seed, TIMING, Set.of())));
    }

    @Test
    @Tag("deep")
    void whenClientsAreStartedWithAnotherListNothingIsLostAndNothingComesBack() {
        assertEquals("", check(0, SCHEDULES, seed -> new ListRun(seed, TIMING, Set.of())));
    }

    @Test
    void whenServersFailAndAClientStandsStillInAFewSchedulesNothingIsLostAndNothingComesBack() {
        assertEquals("", check(0, FEW_LONG_SCHEDULES, seed -> new LongRun(seed, TIMING)));
    }

    @Test
    @Tag("deep")
    void whenServersFailAndAClientStandsStillNothingIsLostAndNothingComesBack() {
        assertEquals("", check(0, SCHEDULES / 4, seed -> new LongRun(seed, TIMING)));
    }

    @ParameterizedTest
    @Tag("deep")
    @EnumSource(World.Broken.class)
    void aBrokenRuleIsNoticed(World.Broken broken) {
        String found = check(0, BROKEN_SCHEDULES, TIMING, EnumSet.of(broken));
        assertTrue(!found.isEmpty(), () -> "nobody noticed that " + broken + " is broken");
    }

    @Test
    @Tag("deep")
    void homesThatMoveWithoutLeasesAreNoticed() {
        String found = check(0, BROKEN_SCHEDULES, WITHOUT_LEASES, Set.of());
        assertTrue(!found.isEmpty());
    }
}
