package cellar.bench;

import cellar.client.testing.Server;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * The table of source S3: 100 threads, each with 1000 puts and 1000 gets, against the old client.
 *
 * <p>The old client is whalin's, on which S3's rests. A cluster is, for it, a put to each of two
 * servers and a get from one. Clients take turns; the median of all turns counts.
 */
final class S3 {
    private static final int THREADS = 100;

    private record Case(
            String title,
            int claim,
            String value,
            int servers,
            boolean cluster,
            boolean alive,
            int gets) {}

    private static final List<Case> CASES =
            List.of(
                    new Case("simple, liveness check", 41, "100B", 1, false, true, 1000),
                    new Case("simple, no check", 35, "100B", 1, false, false, 1000),
                    new Case("simple, 2000 gets", 43, "100B", 1, false, true, 2000),
                    new Case("complex, liveness check", 37, "object", 1, false, true, 1000),
                    new Case("complex, no check", 25, "object", 1, false, false, 1000),
                    new Case("simple, two servers", 43, "100B", 2, false, true, 1000),
                    new Case("simple, cluster of two", 66, "100B", 2, true, true, 1000));

    private S3() {}

    /** Measures all cases in whose title {@code wanted} is found. */
    static Map<String, Object> run(boolean quick, String wanted) throws Exception {
        int puts = quick ? 50 : 1000;
        List<Map<String, Object>> rows = new ArrayList<>();
        for (Server.Kind kind : Server.Kind.values()) {
            for (Case row : CASES) {
                if (row.title().contains(wanted)) {
                    rows.add(measure(row, kind, quick ? 1 : 5, puts));
                    System.out.println(rows.get(rows.size() - 1));
                }
            }
        }
        return Map.of("threads", THREADS, "puts_per_thread", puts, "rows", rows);
    }

    /** One turn of each to warm up, then {@code rounds} of each in alternation. */
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
                old.add(turn(old(row, ports), row, puts));
                own.add(turn(Peers.cellar(ports, row.value(), row.cluster()), row, puts));
            }
            return Map.of(
                    "case", row.title(),
                    "claim_pct", row.claim(),
                    "server", kind.name().toLowerCase(Locale.ROOT),
                    "servers", row.servers(),
                    "old_client_s", old.subList(1, old.size()),
                    "own_client_s", own.subList(1, own.size()));
        } finally {
            servers.forEach(Server::close);
        }
    }

    private static Peer old(Case row, List<Integer> ports) {
        if (!row.cluster()) {
            return Peers.whalin(ports, row.alive());
        }
        List<Peer> each =
                ports.stream().map(port -> Peers.whalin(List.of(port), row.alive())).toList();
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

    /** The seconds from the start of all threads until the last one is done. */
    private static double turn(Peer peer, Case row, int puts) throws Exception {
        Object value = Values.of(row.value());
        int gets = row.gets() * puts / 1000;
        List<Callable<Integer>> work = new ArrayList<>();
        for (int t = 0; t < THREADS; t++) {
            String prefix = "s3-" + t + "-";
            work.add(() -> work(peer, prefix, value, puts, gets));
        }
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try {
            // All threads are there before the time starts.
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

    /** All puts, then all gets; how many of these found nothing. */
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
