package cellar.bench;

import cellar.client.testing.Server;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Measures every client under every load, with JMH.
 *
 * <p>In each round of a row each client runs in a separate process, one after the other, so that a
 * temporary disturbance of the machine affects all. The result of a round is the median of its
 * iterations.
 *
 * @param rounds number of processes of each client in a row
 * @param finalists number of other clients that remain after the first round
 * @param warmup_ms before each measurement
 * @param iterations of {@code iteration_ms} in each process
 * @param iteration_ms duration of an iteration
 * @param loads of {@link Clients}
 * @param values kinds of {@link Values}
 */
record ClientRows(
        int rounds,
        int finalists,
        int warmup_ms,
        int iterations,
        int iteration_ms,
        List<Load> loads,
        List<String> values) {
    /** The load of a row, with the method of {@link Clients} that runs it. */
    private record Load(String title, String method, int threads) {}

    /** The results of one client in one row, as written to the file. */
    record Cell(String row, String client, List<Double> rounds_per_s) {}

    private static final String OWN = "cellar";
    private static final List<Load> GETS =
            List.of(
                    new Load("get, 1 thread, blocking", "get", 1),
                    new Load("get, 64 threads, blocking", "get", 64),
                    new Load("get, window of 256", "getAsync", 1));
    private static final List<Load> ALL =
            List.of(
                    GETS.get(0),
                    new Load("set, 1 thread, blocking", "set", 1),
                    GETS.get(1),
                    new Load("set, 64 threads, blocking", "set", 64),
                    GETS.get(2));
    private static final List<String> VALUES = List.of("100B", "4KiB", "object");

    /** Takes two minutes. */
    static ClientRows quick() {
        return new ClientRows(1, 0, 200, 1, 200, ALL, List.of("100B"));
    }

    /** Takes twenty minutes. */
    static ClientRows usual() {
        return new ClientRows(3, 3, 1000, 3, 500, GETS, VALUES);
    }

    /** Takes three hours. */
    static ClientRows full() {
        return new ClientRows(5, Peer.NAMES.size(), 3000, 5, 1000, ALL, VALUES);
    }

    /** Measures all rows whose title contains {@code wanted}. */
    List<Cell> run(String wanted) throws Exception {
        List<Cell> cells = new ArrayList<>();
        try (Server memcached = Cores.place(Server.memcached(0, "-c", "4096"));
                Server cellar = Cores.place(Server.start(Server.Kind.CELLAR))) {
            String[] ports = {
                "-Dbench.memcached=" + memcached.port(),
                "-Dbench.cellar=" + cellar.port(),
                "-Dbench.cellar.resp=" + cellar.respPort()
            };
            for (String server : List.of("memcached", "cellar")) {
                for (String value : values) {
                    for (Load load : loads) {
                        String title = load.title() + ", " + value + ", " + server;
                        if (title.contains(wanted)) {
                            cells.addAll(row(title, load, value, server, ports));
                        }
                    }
                }
            }
        }
        return cells;
    }

    private List<Cell> row(String title, Load load, String value, String server, String[] ports)
            throws Exception {
        Map<String, List<Double>> found = new LinkedHashMap<>();
        for (String client : Peer.NAMES) {
            boolean async = load.method().equals("getAsync");
            if (Peer.fits(client, server) && (!async || Peer.isAsync(client))) {
                found.put(client, new ArrayList<>());
            }
        }
        List<String> left = List.copyOf(found.keySet());
        for (int round = 0; round < rounds; round++) {
            for (String client : left) {
                try {
                    found.get(client).add(measure(load, client, value, server, ports));
                } catch (RunnerException e) {
                    if (client.equals(OWN)) {
                        throw e;
                    }
                    found.remove(client);
                    System.out.println(title + ": " + client + " failed: " + e.getMessage());
                }
            }
            left = round == 0 ? best(found) : left.stream().filter(found::containsKey).toList();
        }
        System.out.println(title + ": " + found);
        return found.entrySet().stream()
                .map(it -> new Cell(title, it.getKey(), it.getValue()))
                .toList();
    }

    /** Returns Cellar's client and the best of the others after the first round. */
    private List<String> best(Map<String, List<Double>> found) {
        Comparator<String> slowest = Comparator.comparing(client -> found.get(client).get(0));
        List<String> best =
                found.keySet().stream()
                        .filter(client -> !client.equals(OWN))
                        .sorted(slowest.reversed())
                        .limit(finalists)
                        .toList();
        return found.keySet().stream().filter(it -> it.equals(OWN) || best.contains(it)).toList();
    }

    private double measure(Load load, String client, String value, String server, String[] ports)
            throws RunnerException {
        OptionsBuilder options = new OptionsBuilder();
        options.include("\\.Clients\\." + load.method() + "$")
                .param("client", client)
                .param("server", server)
                .param("value", value)
                .threads(load.threads())
                .forks(1)
                .warmupIterations(1)
                .warmupTime(TimeValue.milliseconds(warmup_ms))
                .measurementIterations(iterations)
                .measurementTime(TimeValue.milliseconds(iteration_ms))
                .shouldFailOnError(true)
                .verbosity(VerboseMode.SILENT)
                .jvmArgsAppend("-Xmx512m", "-Dbench.apart=" + System.getProperty("bench.apart"))
                .jvmArgsPrepend(ports);
        return new Runner(options.build())
                .runSingle()
                .getPrimaryResult()
                .getStatistics()
                .getPercentile(50);
    }
}
