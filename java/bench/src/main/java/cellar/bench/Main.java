package cellar.bench;

import java.nio.file.Path;
import java.util.List;

/**
 * Runs one of the measurements: every client on every server, or the table of S3.
 *
 * <p>{@code --quick} shows only that everything works, {@code --full} takes hours; {@code --out
 * FILE} is where the figures go as JSON, {@code --only PART} says {@code clients} or {@code s3},
 * {@code --rows TEXT} keeps only those rows whose title has it. The property {@code bench.setting}
 * holds machine, date and commit as JSON and stands in the figures as it is.
 */
public final class Main {
    private Main() {}

    /** See the class. */
    public static void main(String[] arguments) throws Exception {
        List<String> words = List.of(arguments);
        Path out = Path.of(option(words, "--out", "figures.json"));
        Plan plan = plan(words);
        Cores.split();
        switch (option(words, "--only", "")) {
            case "clients" -> ClientRows.run(plan, option(words, "--rows", ""), out);
            case "s3" -> S3.run(plan.quick(), option(words, "--rows", ""), out);
            default -> throw new IllegalArgumentException("--only is clients or s3");
        }
    }

    /** The machine and the moment, as JSON. */
    static String setting() {
        return System.getProperty("bench.setting", "null");
    }

    private static Plan plan(List<String> words) {
        if (words.contains("--quick")) {
            return Plan.trial();
        }
        return words.contains("--full") ? Plan.full() : Plan.usual();
    }

    private static String option(List<String> words, String name, String otherwise) {
        int at = words.indexOf(name);
        return at < 0 ? otherwise : words.get(at + 1);
    }

    static void show(String line) {
        System.out.println(line);
    }
}
