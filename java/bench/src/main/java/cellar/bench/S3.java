package cellar.bench;

import cellar.client.CacheClientBuilder;
import cellar.client.testing.Server;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

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
            String claim,
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
                    new Case("simple, liveness check", "+41 %", "100B", 1, false, true, 1000),
                    new Case("simple, no check", "+35 %", "100B", 1, false, false, 1000),
                    new Case("simple, 2000 gets", "+43 %", "100B", 1, false, true, 2000),
                    new Case("complex, liveness check", "+37 %", "object", 1, false, true, 1000),
                    new Case("complex, no check", "+25 %", "object", 1, false, false, 1000),
                    new Case("simple, two servers", "+43 %", "100B", 2, false, true, 1000),
                    new Case("simple, cluster of two", "+66 %", "100B", 2, true, true, 1000));

    private S3() {}

    static void run(boolean quick, Map<String, Object> setting, Path out) throws Exception {
        int rounds = quick ? 1 : 5;
        int puts = quick ? 50 : 1000;
        List<Map<String, Object>> rows = new ArrayList<>();
        StringBuilder text = new StringBuilder();
        text.append("100 threads x (" + puts + " puts + gets), seconds, medians (range); S3 is\n");
        text.append(
                "what that client claimed over the old one, here is Cellar's client over the\n");
        text.append("old one: how much more is done in the same time.\n\n");
        text.append("| case | server | old client, s | Cellar's, s | S3 | here |\n");
        text.append("|---|---|---|---|---|---|\n");
        for (Server.Kind kind : Server.Kind.values()) {
            for (Case wanted : CASES) {
                Spread[] seconds = measure(wanted, kind, rounds, puts);
                String line = line(wanted, kind, seconds);
                Main.show(line);
                text.append(line).append('\n');
                rows.add(json(wanted, kind, seconds));
            }
        }
        text.append('\n').append(Main.footer(setting));
        Files.writeString(out.resolve("s3.md"), text);
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("setting", setting);
        all.put("threads", THREADS);
        all.put("puts_per_thread", puts);
        all.put("rounds", rounds);
        all.put("rows", rows);
        Main.json(out.resolve("s3.json"), all);
    }

    private static Spread[] measure(Case wanted, Server.Kind kind, int rounds, int puts)
            throws Exception {
        List<Server> servers = new ArrayList<>();
        try {
            for (int i = 0; i < wanted.servers(); i++) {
                servers.add(Cores.place(Server.start(kind)));
            }
            return turns(wanted, servers.stream().map(Server::port).toList(), rounds, puts);
        } finally {
            servers.forEach(Server::close);
        }
    }

    private static double improvement(Spread[] seconds) {
        return (seconds[0].median() / seconds[1].median() - 1) * 100;
    }

    private static String line(Case wanted, Server.Kind kind, Spread[] seconds) {
        return String.format(
                Locale.ROOT,
                "| %s | %s | %s | %s | %s | %+.0f %% |",
                wanted.title(),
                name(kind),
                seconds[0].text(1, 2),
                seconds[1].text(1, 2),
                wanted.claim(),
                improvement(seconds));
    }

    private static Map<String, Object> json(Case wanted, Server.Kind kind, Spread[] seconds) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("case", wanted.title());
        row.put("server", name(kind));
        row.put("value", wanted.value());
        row.put("servers", wanted.servers());
        row.put("cluster", wanted.cluster());
        row.put("gets_per_1000_puts", wanted.gets());
        row.put("old_s", seconds[0].json());
        row.put("own_s", seconds[1].json());
        row.put("claimed_improvement", wanted.claim());
        row.put("improvement_percent", improvement(seconds));
        return row;
    }

    private static String name(Server.Kind kind) {
        return kind.name().toLowerCase(Locale.ROOT);
    }

    /** One turn of each to warm up, then {@code rounds} of each in alternation. */
    private static Spread[] turns(Case wanted, List<Integer> ports, int rounds, int puts)
            throws Exception {
        Opener old = () -> old(wanted, ports);
        Opener own = () -> own(wanted, ports);
        turn(old, wanted, puts);
        turn(own, wanted, puts);
        Spread[] seconds = {new Spread(), new Spread()};
        for (int round = 0; round < rounds; round++) {
            seconds[0].add(turn(old, wanted, puts));
            seconds[1].add(turn(own, wanted, puts));
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
        try (Peer peer = opener.open()) {
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < THREADS; t++) {
                String prefix = "s3-" + t + "-";
                threads.add(new Thread(() -> work(peer, prefix, value, puts, gets, start, wrong)));
            }
            threads.forEach(Thread::start);
            long begin_ns = System.nanoTime();
            start.countDown();
            for (Thread thread : threads) {
                thread.join();
            }
            double seconds = (System.nanoTime() - begin_ns) / 1e9;
            if (wrong.get() > 0) {
                throw new IllegalStateException(wrong + " wrong answers in " + wanted.title());
            }
            return seconds;
        }
    }

    private static void work(
            Peer peer,
            String prefix,
            Object value,
            int puts,
            int gets,
            CountDownLatch start,
            AtomicInteger wrong) {
        try {
            start.await();
            for (int i = 0; i < puts; i++) {
                peer.set(prefix + i, value);
            }
            for (int i = 0; i < gets; i++) {
                if (peer.get(prefix + i % puts) == null) {
                    wrong.incrementAndGet();
                }
            }
        } catch (Exception e) {
            wrong.incrementAndGet();
        }
    }
}
