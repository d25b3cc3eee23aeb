package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.CacheMetrics;
import cellar.client.CasOutcome;
import cellar.client.internal.wire.CountOperation;
import cellar.client.internal.wire.Mark.Kind;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Simulated servers, clients and connections, in one thread and simulated time. */
final class World {
    /** Rules that are broken on purpose; the model must detect it. */
    enum Broken {
        /** Deletes leave no tombstone. */
        TRACES,
        /** Adding overwrites. */
        ADDING,
        /** Conditional stores ignore the condition. */
        COMPARING,
        /** Copies have no order. */
        ORDER,
        /** Connections use any process. */
        GUARD,
        /** No client waits until the nodes have the view. */
        TELLING
    }

    private static final String VIEW = new String(Watch.VIEW_KEY, StandardCharsets.US_ASCII);

    /** Limit of the delay after which a stopped server reads each of its connections. */
    static final int THAW_MS = 100;

    /** Limit of the delay after which a paused client runs its due tasks, in any order. */
    private static final int WAKING_MS = 4;

    /** Additional delay of views while the rule {@link Broken#TELLING} is broken. */
    private static final long LATE_MS = 100;

    private record Event(long at_ms, long number, Runnable task) implements Comparable<Event> {
        @Override
        public int compareTo(Event other) {
            int order = Long.compare(at_ms, other.at_ms);
            return order != 0 ? order : Long.compare(number, other.number);
        }
    }

    /** The socket of a connection; replaced after each request without an answer in time. */
    private record Socket(Connection connection, int number) {}

    /** A stored item. */
    private record Held(Item item, long version, long ends_ms) {}

    /** A server. */
    final class Server {
        final String name;
        private final Map<String, Held> items = new HashMap<>();
        private final Map<Socket, List<Runnable>> waiting = new LinkedHashMap<>();
        private long version;
        private int process;
        private boolean dead;
        private boolean frozen;
        private boolean swallows;

        Server(String name) {
            this.name = name;
        }

        void kill() {
            dead = true;
            process++;
            items.clear();
            waiting.clear();
            version = 0;
        }

        void restart() {
            dead = false;
        }

        void freeze() {
            frozen = true;
        }

        /** From now on copies get no answer; other requests do. */
        void swallow() {
            swallows = true;
        }

        /** Continues: each socket is read at its own time, and new ones may be first. */
        void thaw() {
            frozen = false;
            List.copyOf(waiting.keySet()).forEach(socket -> later(late(), () -> read(socket)));
        }

        private long late() {
            return random.nextInt(THAW_MS);
        }

        private void read(Socket socket) {
            if (!frozen) {
                List<Runnable> late = waiting.remove(socket);
                if (late != null) {
                    late.forEach(Runnable::run);
                }
            }
        }

        private @Nullable Held held(String key) {
            Held held = items.get(key);
            if (held != null && held.ends_ms <= now_ms) {
                items.remove(key);
                return null;
            }
            return held;
        }

        private long put(String key, Item item) {
            version++;
            Item kept = broken.contains(Broken.ORDER) && item.ordered() ? item.in(0) : item;
            if (broken.contains(Broken.TRACES) && item.kind() == Kind.GONE) {
                items.remove(key);
            } else {
                long ends_ms = item.expiry() == 0 ? Long.MAX_VALUE : now_ms + item.expiry() * 1000;
                items.put(key, new Held(kept, version, ends_ms));
            }
            return version;
        }

        private Peer.Stored store(String key, Item item, Peer.If condition, long expected) {
            Held held = held(key);
            boolean fits =
                    switch (condition) {
                        case ANY -> true;
                        case ABSENT -> held == null || broken.contains(Broken.ADDING);
                        case SAME ->
                                held != null
                                        && (held.version == expected
                                                || broken.contains(Broken.COMPARING));
                    };
            return fits
                    ? new Peer.Stored(CasOutcome.STORED, put(key, item))
                    : new Peer.Stored(CasOutcome.CHANGED, 0);
        }

        private @Nullable Long count(String key, Edit.Count count) {
            Held held = held(key);
            if (held == null) {
                if (count.initial() >= 0) {
                    put(key, number(count.initial(), count.expiry()));
                }
                return count.initial() < 0 ? null : (Long) count.initial();
            }
            if (!held.item.isNumber()) {
                throw new CacheException.Refused("not a number");
            }
            long next = count.next(CountOperation.parse(held.item.value()));
            Item item = held.item;
            byte[] digits = Long.toString(next).getBytes(StandardCharsets.US_ASCII);
            put(
                    key,
                    new Item(
                            item.kind(),
                            digits,
                            item.flags(),
                            item.expiry(),
                            item.view(),
                            false,
                            0,
                            0));
            return next;
        }

        private static Item number(long number, long expiry) {
            byte[] digits = Long.toString(number).getBytes(StandardCharsets.US_ASCII);
            return Item.of(Kind.VALUE, digits, 0, expiry);
        }

        /** Returns the value that a caller would find here. */
        @Nullable String live(String key) {
            Held held = held(key);
            return held == null || held.item.kind() == Kind.GONE
                    ? null
                    : new String(held.item.value(), StandardCharsets.UTF_8);
        }
    }

    /** One connection of a client to a server. */
    private final class Connection implements Peer {
        private final Client client;
        private final Server server;
        private final boolean guarded;
        private int process = -1;
        private int socket;

        Connection(Client client, Server server, boolean guarded) {
            this.client = client;
            this.server = server;
            this.guarded = guarded && !broken.contains(Broken.GUARD);
        }

        private <T extends @Nullable Object> CompletableFuture<T> ask(Supplier<T> task) {
            CompletableFuture<T> answer = new CompletableFuture<>();
            Socket over = new Socket(this, socket);
            client.later(timeout_ms, () -> fail(answer));
            later(way(), () -> arrive(over, task, answer));
            return answer;
        }

        /** Returns the latency of one direction. */
        private long way() {
            int slow_ms = client.slow.getOrDefault(server.name, 0);
            return delay() + (slow_ms == 0 ? 0 : random.nextInt(slow_ms));
        }

        private void fail(CompletableFuture<?> answer) {
            if (!answer.isDone()) {
                socket++;
                answer.completeExceptionally(new CacheException.Timeout(server.name));
            }
        }

        private <T extends @Nullable Object> void arrive(
                Socket over, Supplier<T> task, CompletableFuture<T> answer) {
            if (client.cut.contains(server.name)) {
                return;
            }
            if (server.dead) {
                client.later(0, () -> answer.completeExceptionally(down(server)));
                return;
            }
            if (server.frozen || server.waiting.containsKey(over)) {
                server.waiting
                        .computeIfAbsent(over, none -> new ArrayList<>())
                        .add(() -> run(task, answer));
                return;
            }
            run(task, answer);
        }

        private <T extends @Nullable Object> void run(
                Supplier<T> task, CompletableFuture<T> answer) {
            if (guarded && process != server.process && server.held(VIEW) == null) {
                client.later(way(), () -> answer.completeExceptionally(down(server)));
                return;
            }
            process = server.process;
            T result;
            try {
                result = task.get();
            } catch (CacheException e) {
                client.later(way(), () -> answer.completeExceptionally(e));
                return;
            }
            if (!client.cut.contains(server.name)) {
                client.later(way(), () -> answer.complete(result));
            }
        }

        private static CacheException down(Server server) {
            return new CacheException.Connection(server.name, null);
        }

        @Override
        public CompletableFuture<Found> read(byte[] key) {
            String name = name(key);
            return ask(
                    () -> {
                        Held held = server.held(name);
                        return held == null
                                ? Found.NOTHING
                                : new Found(held.item, held.version, false);
                    });
        }

        @Override
        public CompletableFuture<Found> readOnly(byte[] key) {
            String name = name(key);
            return ask(
                    () -> {
                        Held held = server.held(name);
                        return held == null ? Found.NOTHING : new Found(held.item, 0, false);
                    });
        }

        @Override
        public CompletableFuture<Stored> store(byte[] key, Item item, If condition, long version) {
            String name = name(key);
            Supplier<Stored> task = () -> server.store(name, item, condition, version);
            if (server.swallows && !name.startsWith(Watch.RESERVED)) {
                CompletableFuture<Stored> none = new CompletableFuture<>();
                client.later(timeout_ms, () -> fail(none));
                return none;
            }
            boolean tells = condition == If.SAME && Arrays.equals(key, Watch.VIEW_KEY);
            if (tells && broken.contains(Broken.TELLING)) {
                Socket over = new Socket(this, socket);
                later(LATE_MS + way(), () -> arrive(over, task, new CompletableFuture<>()));
                return CompletableFuture.completedFuture(new Stored(CasOutcome.STORED, 0));
            }
            return ask(task);
        }

        @Override
        public CompletableFuture<@Nullable Long> count(byte[] key, Edit.Count count) {
            String name = name(key);
            return this.<@Nullable Long>ask(() -> server.count(name, count));
        }

        @Override
        public CompletableFuture<?> flush() {
            return ask(
                    () -> {
                        server.items.clear();
                        return true;
                    });
        }

        @Override
        public CompletableFuture<Set<String>> keys() {
            return ask(() -> new TreeSet<>(server.items.keySet()));
        }
    }

    /** A client, which uses the real rules. */
    final class Client {
        final String name;
        final Watch watch;
        final Changes changes;
        final Set<String> cut = new HashSet<>();

        /** The servers in its list. */
        private final List<Server> list;

        /** The tasks that became due while it is paused; null if it is not. */
        private @Nullable List<Runnable> due;

        /** Whether it accepts no more requests from its caller. */
        boolean isClosing;

        /** The number of requests that its caller waits for. */
        int pending;

        /** The limit of additional latency to these servers, in milliseconds. */
        final Map<String, Integer> slow = new HashMap<>();

        Client(String name, Timing timing, long apart_ms, List<Server> list) {
            this.name = name;
            this.list = list;
            Ticks ticks =
                    new Ticks() {
                        @Override
                        public long now_ms() {
                            return now_ms + apart_ms;
                        }

                        @Override
                        public void later(long delay_ms, Runnable task) {
                            Client.this.later(delay_ms, task);
                        }
                    };
            watch = new Watch(name, ticks, timing, () -> {});
            changes = new Changes(watch, timeout_ms);
        }

        void start() {
            watch.start(list.stream().map(this::replica).toList());
        }

        /** Schedules a task of the client. */
        private void later(long delay_ms, Runnable task) {
            World.this.later(delay_ms, () -> act(task));
        }

        private void act(Runnable task) {
            List<Runnable> still = due;
            if (still == null) {
                task.run();
            } else {
                still.add(task);
            }
        }

        /** Pauses the client for this time, when its copies are delivered; its clock continues. */
        void standStill(long for_ms) {
            if (!hasCopied()) {
                later(1, () -> standStill(for_ms));
            } else if (due == null) {
                due = new ArrayList<>();
                World.this.later(for_ms, this::goOn);
            }
        }

        /** Runs the tasks that became due, in any order. */
        private void goOn() {
            List<Runnable> late = due;
            due = null;
            if (late != null) {
                late.forEach(task -> later(random.nextInt(WAKING_MS), task));
            }
        }

        boolean isStill() {
            return due != null;
        }

        /** Whether its requests are answered and its copies are delivered. */
        boolean isIdle() {
            return pending == 0 && hasCopied();
        }

        /** Whether its copies are delivered. */
        boolean hasCopied() {
            boolean copied = true;
            for (Replica replica : watch.replicas()) {
                copied &= replica.queue().drained().isDone();
            }
            return copied;
        }

        /**
         * Closes it when its requests are answered and its copies are delivered; then runs the
         * task.
         */
        void close(Runnable then) {
            isClosing = true;
            if (isIdle()) {
                watch.close();
                clients.remove(this);
                then.run();
            } else {
                World.this.later(1, () -> close(then));
            }
        }

        private Replica replica(Server server) {
            return new Replica(
                    server.name,
                    new Connection(this, server, true),
                    new Connection(this, server, false),
                    new CopyQueue(1000, watch.ticks(), delivery(server.name)),
                    known -> {});
        }

        private Delivery delivery(String node) {
            return new Delivery(watch, node, CacheMetrics.NONE, node);
        }

        /** Reads like a caller. */
        CompletableFuture<@Nullable String> get(String key) {
            return get(key, 3);
        }

        private CompletableFuture<@Nullable String> get(String key, int again) {
            byte[] bytes = bytes(key);
            long hash = Homes.hash(bytes);
            return watch.fresh(watch.ticks().now_ms() + 5 * timeout_ms)
                    .thenCompose(
                            fresh -> {
                                Homes homes = watch.homes();
                                Replica home = homes.home(hash);
                                if (home == null) {
                                    throw new CacheException.Connection("nobody", null);
                                }
                                return home.home()
                                        .read(bytes)
                                        .handle((found, failure) -> failure == null ? found : null)
                                        .thenCompose(found -> second(bytes, home, found))
                                        .thenCompose(
                                                value ->
                                                        value == null
                                                                        && again > 0
                                                                        && !watch.isHome(
                                                                                home, homes, hash)
                                                                ? get(key, again - 1)
                                                                : CompletableFuture.completedFuture(
                                                                        value));
                            });
        }

        private CompletableFuture<@Nullable String> second(
                byte[] key, Replica home, @Nullable Found found) {
            Replica next = watch.homes().next(Homes.hash(key), home);
            if (found != null && found.item() != null || next == null) {
                return CompletableFuture.completedFuture(value(found));
            }
            return next.home()
                    .read(key)
                    .thenApply(
                            other -> {
                                Item copy = other.copy(watch.homes().numberOf(next));
                                if (found != null && copy != null && other.live() != null) {
                                    home.copy().store(key, copy, Peer.If.ABSENT, 0);
                                }
                                return value(other);
                            });
        }

        private static @Nullable String value(@Nullable Found found) {
            if (found == null) {
                throw new CacheException.Connection("no answer", null);
            }
            Item live = found.live();
            return live == null ? null : new String(live.value(), StandardCharsets.UTF_8);
        }

        boolean isWhole() {
            return watch.isFresh()
                    && watch.homes().known().size() == list.size()
                    && list.stream().allMatch(server -> server.live(VIEW) != null);
        }
    }

    final Random random;
    final List<Server> servers = new ArrayList<>();
    final List<Client> clients = new ArrayList<>();
    private final Timing timing;
    private final long timeout_ms;
    private final Set<Broken> broken;
    private final PriorityQueue<Event> events = new PriorityQueue<>();
    private long numbers;
    private long now_ms = 1000;

    /** Creates clients with {@code timing} and this time-out. */
    World(long seed, int servers, int clients, Timing timing, long timeout_ms, Set<Broken> broken) {
        this.random = new Random(seed);
        this.timing = timing;
        this.timeout_ms = timeout_ms;
        this.broken = broken.isEmpty() ? EnumSet.noneOf(Broken.class) : EnumSet.copyOf(broken);
        for (int i = 0; i < servers; i++) {
            this.servers.add(new Server("s" + i));
        }
        for (int i = 0; i < clients; i++) {
            add("c" + i, this.servers);
        }
        this.clients.forEach(Client::start);
    }

    /** Adds a client with this list of servers that does not know them yet. */
    Client add(String name, List<Server> list) {
        Client client = new Client(name, timing, random.nextInt(10_000), list);
        clients.add(client);
        return client;
    }

    long now_ms() {
        return now_ms;
    }

    /** Stores an item on a server without a condition. */
    static void put(Server server, byte[] key, Item item) {
        server.put(name(key), item);
    }

    void later(long delay_ms, Runnable task) {
        events.add(new Event(now_ms + delay_ms, numbers++, task));
    }

    private long delay() {
        return random.nextInt(20) == 0 ? random.nextInt(8) : random.nextInt(3);
    }

    /** Advances the time. */
    void run(long for_ms) {
        long until_ms = now_ms + for_ms;
        while (!events.isEmpty() && events.peek().at_ms <= until_ms) {
            Event event = events.poll();
            now_ms = event.at_ms;
            event.task.run();
        }
        now_ms = until_ms;
    }

    boolean isWhole() {
        return clients.stream().allMatch(Client::isWhole);
    }

    static byte[] bytes(String key) {
        return key.getBytes(StandardCharsets.US_ASCII);
    }

    private static String name(byte[] key) {
        return new String(key, StandardCharsets.US_ASCII);
    }
}
