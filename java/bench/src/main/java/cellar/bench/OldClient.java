package cellar.bench;

import cellar.client.CacheClientBuilder.Mode;
import cellar.client.Codecs;
import cellar.client.JavaClasses;
import cellar.client.WhalinOptions;
import cellar.client.testing.Server;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Pattern;

/**
 * Repeats the table of the article on memcache-client-forjava 2.2 against whalin's client: 100
 * threads, each with 1000 puts and 1000 gets.
 *
 * <p>In the first table both clients do the same: check connections or not, serialise objects. In
 * the second each has its defaults, whalin's client in its last version. For that client a cluster
 * is a put to each of two servers and a get from one. In each round Cellar's client runs before and
 * after whalin's client. A short round warms up; medians count.
 */
final class OldClient {
    private static final int THREADS = 100;

    private enum Table {
        SAME,
        USUAL
    }

    private record Case(
            Table table,
            String title,
            String value,
            int servers,
            boolean cluster,
            boolean check,
            int gets) {}

    private static final List<Case> CASES =
            List.of(
                    new Case(Table.SAME, "simple, check", "100B", 1, false, true, 1000),
                    new Case(Table.SAME, "simple, no check", "100B", 1, false, false, 1000),
                    new Case(Table.SAME, "2000 gets, check", "100B", 1, false, true, 2000),
                    new Case(Table.SAME, "2000 gets, no check", "100B", 1, false, false, 2000),
                    new Case(Table.SAME, "complex, check", "object", 1, false, true, 1000),
                    new Case(Table.SAME, "complex, no check", "object", 1, false, false, 1000),
                    new Case(Table.SAME, "two servers", "100B", 2, false, true, 1000),
                    new Case(Table.SAME, "cluster", "100B", 2, true, true, 1000),
                    new Case(Table.USUAL, "simple", "100B", 1, false, false, 1000),
                    new Case(Table.USUAL, "2000 gets", "100B", 1, false, false, 2000),
                    new Case(Table.USUAL, "complex", "object", 1, false, false, 1000),
                    new Case(Table.USUAL, "two servers", "100B", 2, false, false, 1000),
                    new Case(Table.USUAL, "cluster", "100B", 2, true, false, 1000));

    private OldClient() {}

    /** Measures all cases whose server, table and title match {@code wanted}. */
    static Map<String, Object> run(boolean quick, Pattern wanted) throws Exception {
        int puts = quick ? 50 : 1000;
        List<Map<String, Object>> rows = new ArrayList<>();
        for (Server.Kind kind : Server.Kind.values()) {
            for (Case row : CASES) {
                String name = String.join(" ", lower(kind), lower(row.table()), row.title());
                if (wanted.matcher(name).find()) {
                    int rounds = quick ? 1 : row.table() == Table.SAME ? 2 : 3;
                    rows.add(measure(row, kind, rounds, puts));
                    System.out.println(rows.get(rows.size() - 1));
                }
            }
        }
        return Map.of(
                "threads", THREADS,
                "puts_per_thread", puts,
                "old_version", Whalin.oldVersion(),
                "rows", rows);
    }

    private static String lower(Enum<?> name) {
        return name.name().toLowerCase(Locale.ROOT);
    }

    /** Runs a short round to warm up, then {@code rounds} that count. */
    private static Map<String, Object> measure(Case row, Server.Kind kind, int rounds, int puts)
            throws Exception {
        List<Server> servers = new ArrayList<>();
        try {
            for (int i = 0; i < row.servers(); i++) {
                servers.add(Cores.place(Server.start(kind)));
            }
            List<Integer> ports = servers.stream().map(Server::port).toList();
            List<Double> old = new ArrayList<>();
            List<Double> own = new ArrayList<>();
            for (int round = 0; round <= rounds; round++) {
                int count = round == 0 ? puts / 5 : puts;
                own.add(turn("own", own(row, ports), row, count));
                old.add(turn("old", old(row, ports), row, count));
                own.add(turn("own", own(row, ports), row, count));
            }
            return Map.of(
                    "table", lower(row.table()),
                    "case", row.title(),
                    "server", lower(kind),
                    "old_client_s", old.subList(1, old.size()),
                    "own_client_s", own.subList(2, own.size()));
        } finally {
            servers.forEach(Server::close);
        }
    }

    private static Peer own(Case row, List<Integer> ports) {
        WhalinOptions objects = WhalinOptions.plain().javaClasses(JavaClasses.of("cellar.bench.*"));
        return Peers.cellar(
                ports,
                row.table() == Table.SAME ? Codecs.whalin(objects) : Peers.codec(row.value()),
                builder ->
                        builder.mode(row.cluster() ? Mode.REPLICATED : Mode.SHARDED)
                                .checkedConnections(row.check()));
    }

    private static Peer old(Case row, List<Integer> ports) throws Exception {
        if (!row.cluster()) {
            return oldOne(row, ports);
        }
        List<Peer> each = new ArrayList<>();
        for (Integer port : ports) {
            each.add(oldOne(row, List.of(port)));
        }
        return new Peer(
                key -> each.get((key.hashCode() & 0x7fffffff) % each.size()).get().of(key),
                (key, value) -> {
                    for (Peer peer : each) {
                        peer.set().to(key, value);
                    }
                },
                () -> {
                    for (Peer peer : each) {
                        peer.close();
                    }
                });
    }

    private static Peer oldOne(Case row, List<Integer> ports) throws Exception {
        return row.table() == Table.SAME
                ? Whalin.old(ports, row.check())
                : Whalin.open("com.whalin", ports, row.check());
    }

    /**
     * Returns the seconds from the start of all threads until the last one has ended. Each client
     * has separate keys, so none finds items of another.
     */
    private static double turn(String name, Peer peer, Case row, int puts) throws Exception {
        Object value = Values.of(row.value());
        int gets = row.gets() * puts / 1000;
        List<Callable<Integer>> work = new ArrayList<>();
        for (int t = 0; t < THREADS; t++) {
            String prefix = name + "-" + t + "-";
            work.add(() -> work(peer, prefix, value, puts, gets));
        }
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try {
            // Starts all threads before the measurement.
            threads.invokeAll(work.stream().map(it -> (Callable<Integer>) () -> 0).toList());
            long begin_ns = System.nanoTime();
            List<Future<Integer>> ended = threads.invokeAll(work);
            double seconds = (System.nanoTime() - begin_ns) / 1e9;
            int wrong = 0;
            for (Future<Integer> thread : ended) {
                wrong += thread.get();
            }
            if (wrong > 0) {
                throw new IllegalStateException(wrong + " wrong answers in " + row.title());
            }
            return seconds;
        } finally {
            threads.shutdown();
            peer.close();
        }
    }

    /** Does all puts, then all gets; returns how many gets found nothing. */
    private static int work(Peer peer, String prefix, Object value, int puts, int gets)
            throws Exception {
        int wrong = 0;
        for (int i = 0; i < puts; i++) {
            peer.set().to(prefix + i, value);
        }
        for (int i = 0; i < gets; i++) {
            if (peer.get().of(prefix + i % puts) == null) {
                wrong++;
            }
        }
        return wrong;
    }
}
