package cellar.bench;

import cellar.client.CacheClientBuilder;
import cellar.client.testing.Server;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

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

    private interface Opener {
        Peer open() throws Exception;
    }

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

    /** Measures all cases in whose title {@code rows} is found. */
    static void run(boolean quick, String rows, Path file) throws Exception {
        int puts = quick ? 50 : 1000;
        List<String> measured = new ArrayList<>();
        for (Server.Kind kind : Server.Kind.values()) {
            for (Case wanted : CASES) {
                if (wanted.title().contains(rows)) {
                    measured.add(measure(wanted, kind, quick ? 1 : 5, puts));
                }
            }
        }
        String head =
                "{\n\"setting\": %s,\n\"threads\": %d, \"puts_per_thread\": %d,\n\"rows\": [\n";
        Files.writeString(
                file,
                String.format(Locale.ROOT, head, Main.setting(), THREADS, puts)
                        + String.join(",\n", measured)
                        + "\n]}\n");
    }

    /** One case as JSON. */
    private static String measure(Case wanted, Server.Kind kind, int rounds, int puts)
            throws Exception {
        List<Server> servers = new ArrayList<>();
        try {
            for (int i = 0; i < wanted.servers(); i++) {
                servers.add(Cores.place(Server.start(kind)));
            }
            List<Integer> ports = servers.stream().map(Server::port).toList();
            double[][] seconds = turns(wanted, ports, rounds, puts);
            double old = median(seconds[0]);
            double own = median(seconds[1]);
            String server = kind.name().toLowerCase(Locale.ROOT);
            System.out.printf(
                    Locale.ROOT,
                    "%s, %s: %+.0f %%, claimed %+d %%%n",
                    wanted.title(),
                    server,
                    (old / own - 1) * 100,
                    wanted.claim());
            return String.format(
                    Locale.ROOT,
                    "{\"case\": \"%s\", \"claim_pct\": %d, \"server\": \"%s\", \"servers\": %d, "
                            + "\"old_client_s\": %s, \"own_client_s\": %s}",
                    wanted.title(),
                    wanted.claim(),
                    server,
                    wanted.servers(),
                    Arrays.toString(seconds[0]),
                    Arrays.toString(seconds[1]));
        } finally {
            servers.forEach(Server::close);
        }
    }

    /** One turn of each to warm up, then {@code rounds} of each in alternation. */
    private static double[][] turns(Case wanted, List<Integer> ports, int rounds, int puts)
            throws Exception {
        Opener old = () -> old(wanted, ports);
        Opener own = () -> own(wanted, ports);
        turn(old, wanted, puts);
        turn(own, wanted, puts);
        double[][] seconds = new double[2][rounds];
        for (int round = 0; round < rounds; round++) {
            seconds[0][round] = turn(old, wanted, puts);
            seconds[1][round] = turn(own, wanted, puts);
        }
        return seconds;
    }

    private static Peer own(Case wanted, List<Integer> ports) {
        CacheClientBuilder.Mode mode =
                wanted.cluster()
                        ? CacheClientBuilder.Mode.REPLICATED
                        : CacheClientBuilder.Mode.SHARDED;
        return new CellarPeer(ports, wanted.value(), mode);
    }

    private static Peer old(Case wanted, List<Integer> ports) {
        if (!wanted.cluster()) {
            return new WhalinPeer(ports, wanted.alive());
        }
        List<WhalinPeer> each =
                ports.stream().map(port -> new WhalinPeer(List.of(port), wanted.alive())).toList();
        return new Peer() {
            @Override
            public Object get(String key) {
                return each.get((key.hashCode() & 0x7fffffff) % each.size()).get(key);
            }

            @Override
            public void set(String key, Object value) {
                each.forEach(peer -> peer.set(key, value));
            }

            @Override
            public void close() {
                each.forEach(WhalinPeer::close);
            }
        };
    }

    private static double turn(Opener opener, Case wanted, int puts) throws Exception {
        Object value = Values.of(wanted.value());
        int gets = wanted.gets() * puts / 1000;
        CountDownLatch start = new CountDownLatch(1);
        AtomicInteger wrong = new AtomicInteger();
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (Peer peer = opener.open()) {
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < THREADS; t++) {
                String prefix = "s3-" + t + "-";
                threads.add(
                        new Thread(
                                () -> {
                                    try {
                                        start.await();
                                        wrong.addAndGet(work(peer, prefix, value, puts, gets));
                                    } catch (Exception e) {
                                        failure.compareAndSet(null, e);
                                    }
                                }));
            }
            threads.forEach(Thread::start);
            long begin_ns = System.nanoTime();
            start.countDown();
            for (Thread thread : threads) {
                thread.join();
            }
            double seconds = (System.nanoTime() - begin_ns) / 1e9;
            Exception first = failure.get();
            if (first != null) {
                throw new IllegalStateException(wanted.title() + " failed", first);
            }
            if (wrong.get() > 0) {
                throw new IllegalStateException(wrong + " wrong answers in " + wanted.title());
            }
            return seconds;
        }
    }

    /** All puts, then all gets; how many of these found nothing. */
    private static int work(Peer peer, String prefix, Object value, int puts, int gets)
            throws Exception {
        int wrong = 0;
        for (int i = 0; i < puts; i++) {
            peer.set(prefix + i, value);
        }
        for (int i = 0; i < gets; i++) {
            if (peer.get(prefix + i % puts) == null) {
                wrong++;
            }
        }
        return wrong;
    }

    private static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }
}
