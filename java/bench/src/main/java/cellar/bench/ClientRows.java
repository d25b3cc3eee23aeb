package cellar.bench;

import cellar.client.testing.Server;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.stream.Collectors;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Every client under every load, by JMH.
 *
 * <p>In each round of a row each client has a process of its own, one after the other, so that what
 * disturbs the machine for a while hits all. A round's figure is the median of its iterations.
 */
final class ClientRows {
    private final Plan plan;
    private final Server memcached;
    private final Server cellar;

    private ClientRows(Plan plan, Server memcached, Server cellar) {
        this.plan = plan;
        this.memcached = memcached;
        this.cellar = cellar;
    }

    /** Measures all rows in whose title {@code wanted} is found. */
    static void run(Plan plan, String wanted, Path out) throws Exception {
        List<Row> rows = new ArrayList<>();
        try (Server memcached = Cores.place(Server.memcached(0, "-c", "4096"));
                Server cellar = Cores.place(Server.start(Server.Kind.CELLAR))) {
            ClientRows runner = new ClientRows(plan, memcached, cellar);
            for (Row row : all(plan)) {
                if (row.title().contains(wanted)) {
                    runner.measure(row);
                    rows.add(row);
                    Main.show(row.title() + ": x " + row.verdict());
                    write(rows, out);
                }
            }
        }
    }

    private static List<Row> all(Plan plan) {
        List<Row> rows = new ArrayList<>();
        for (String server : List.of("memcached", "cellar")) {
            for (String value : plan.values()) {
                for (Plan.Load load : plan.benchmarks()) {
                    rows.add(new Row(load, value, server));
                }
            }
        }
        return rows;
    }

    private void measure(Row row) throws Exception {
        List<String> clients = new ArrayList<>();
        for (String name : Peer.names()) {
            boolean async = row.load().benchmark().equals("getAsync");
            if (Peer.fits(name, row.server()) && (!async || Peer.isAsync(name))) {
                clients.add(name);
            }
        }
        for (int round = 0; round < plan.rounds(); round++) {
            for (String client : clients) {
                measure(row, client);
            }
            clients = row.finalists(plan.finalists());
        }
    }

    private void measure(Row row, String client) throws RunnerException {
        OptionsBuilder options = new OptionsBuilder();
        options.include("\\.Clients\\." + row.load().benchmark() + "$")
                .param("client", client)
                .param("server", row.server())
                .param("value", row.value())
                .threads(row.load().threads())
                .forks(1)
                .warmupIterations(1)
                .warmupTime(TimeValue.milliseconds(plan.warmup_ms()))
                .measurementIterations(plan.iterations())
                .measurementTime(TimeValue.milliseconds(plan.iteration_ms()))
                .shouldFailOnError(true)
                .verbosity(VerboseMode.SILENT)
                .jvmArgsAppend(
                        "-Xmx512m",
                        "-Dbench.apart=" + System.getProperty("bench.apart"),
                        "-Dbench.memcached=" + memcached.port(),
                        "-Dbench.cellar=" + cellar.port(),
                        "-Dbench.cellar.resp=" + cellar.respPort());
        try {
            row.add(client, median(new Runner(options.build()).run()));
        } catch (RunnerException e) {
            if (client.equals(Row.OWN)) {
                throw e;
            }
            row.failed(client, e.getMessage());
        }
    }

    private static double median(Collection<RunResult> results) {
        List<Double> scores = new ArrayList<>();
        for (RunResult result : results) {
            for (IterationResult iteration : result.getAggregatedResult().getIterationResults()) {
                scores.add(iteration.getPrimaryResult().getScore());
            }
        }
        return Spread.median(scores);
    }

    private static void write(List<Row> rows, Path out) throws Exception {
        String cells = rows.stream().map(Row::json).collect(Collectors.joining(",\n"));
        Files.writeString(
                out, "{\n\"setting\": " + Main.setting() + ",\n\"rows\": [\n" + cells + "\n]}\n");
    }
}
