package cellar.bench;

import cellar.client.testing.Server;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;

/**
 * Runs one of the measurements: every client on every server, or the table of S3.
 *
 * <p>{@code --only PART} says which, {@code clients} or {@code s3}; {@code --out FILE} is where the
 * figures go as JSON; {@code --quick} shows only that everything works. The property {@code
 * bench.setting} holds machine, date and commit as JSON and stands in the figures as it is.
 */
public final class Main {
    private record Row(String title, String benchmark, int threads) {}

    private static final List<Row> ROWS =
            List.of(
                    new Row("get, 1 thread, blocking", "get", 1),
                    new Row("set, 1 thread, blocking", "set", 1),
                    new Row("get, 64 threads, blocking", "get", 64),
                    new Row("set, 64 threads, blocking", "set", 64),
                    new Row("get, window of 256", "getAsync", 1));

    private final boolean quick;
    private final Path out;

    private Main(boolean quick, Path out) {
        this.quick = quick;
        this.out = out;
    }

    /** See the class. */
    public static void main(String[] arguments) throws Exception {
        List<String> words = List.of(arguments);
        int at = words.indexOf("--out");
        int only = words.indexOf("--only");
        if (at < 0 || only < 0) {
            throw new IllegalArgumentException("--only clients|s3 and --out FILE are needed");
        }
        Main main = new Main(words.contains("--quick"), Path.of(words.get(at + 1)));
        switch (words.get(only + 1)) {
            case "clients" -> main.clients();
            case "s3" -> S3.run(main.quick, main.out);
            default -> throw new IllegalArgumentException("--only is clients or s3");
        }
    }

    /** The machine and the moment, as JSON. */
    static String setting() {
        return System.getProperty("bench.setting", "null");
    }

    private void clients() throws Exception {
        List<String> values = quick ? List.of("100B") : List.of("100B", "4KiB", "object");
        Table table = new Table();
        try (Server memcached = Server.memcached(0, "-c", "4096");
                Server cellar = Server.start(Server.Kind.CELLAR)) {
            for (String server : List.of("memcached", "cellar")) {
                for (String value : values) {
                    for (Row row : ROWS) {
                        measure(table, row, server, value, memcached, cellar);
                    }
                }
            }
        }
        Files.writeString(out, table.json(setting()));
    }

    private void measure(
            Table table, Row row, String server, String value, Server memcached, Server cellar)
            throws Exception {
        List<String> names = new ArrayList<>();
        for (String name : Peer.names()) {
            boolean async = !row.benchmark().equals("getAsync") || Peer.isAsync(name);
            if (Peer.fits(name, server) && async) {
                names.add(name);
            }
        }
        String title = row.title() + ", " + value + ", " + server;
        ChainedOptionsBuilder options =
                new OptionsBuilder()
                        .include("\\.Clients\\." + row.benchmark() + "$")
                        .param("client", names.toArray(new String[0]))
                        .param("server", server)
                        .param("value", value)
                        .threads(row.threads())
                        .forks(quick ? 1 : 2)
                        .warmupIterations(quick ? 1 : 3)
                        .warmupTime(time())
                        .measurementIterations(quick ? 1 : 5)
                        .measurementTime(time())
                        .shouldFailOnError(true)
                        .jvmArgsAppend(
                                "-Xmx512m",
                                "-Dbench.apart=" + System.getProperty("bench.apart"),
                                "-Dbench.memcached=" + memcached.port(),
                                "-Dbench.cellar=" + cellar.port(),
                                "-Dbench.cellar.resp=" + cellar.respPort());
        Collection<RunResult> results = new Runner(options.build()).run();
        for (RunResult result : results) {
            table.add(title, result.getParams().getParam("client"), result.getPrimaryResult());
        }
        show(table.last());
    }

    private TimeValue time() {
        return quick ? TimeValue.milliseconds(200) : TimeValue.seconds(1);
    }

    private static void show(String line) throws IOException {
        System.out.println(line);
    }
}
