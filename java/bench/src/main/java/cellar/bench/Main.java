package cellar.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Runs one of the benchmarks: every client on every server, or {@link OldClient}.
 *
 * <p>{@code --quick} only checks that everything works; {@code --full} takes hours. {@code --out
 * FILE} writes the results as JSON. {@code --only PART} selects {@code clients} or {@code
 * old-client}. {@code --rows TEXT} selects the rows whose title contains the text, for {@code
 * old-client} a regular expression. The property {@code bench.setting} contains machine, date and
 * commit as JSON, and is copied to the results.
 */
public final class Main {
    private Main() {}

    /** Runs the benchmark. */
    public static void main(String[] arguments) throws Exception {
        List<String> words = List.of(arguments);
        boolean quick = words.contains("--quick");
        String rows = option(words, "--rows", "");
        Cores.split();
        ObjectMapper json = new ObjectMapper();
        Map<String, Object> figures = new LinkedHashMap<>();
        figures.put("setting", json.readTree(System.getProperty("bench.setting", "null")));
        switch (option(words, "--only", "")) {
            case "clients" -> {
                boolean full = words.contains("--full");
                ClientRows plan = full ? ClientRows.full() : ClientRows.usual();
                figures.put("rows", (quick ? ClientRows.quick() : plan).run(rows));
            }
            case "old-client" -> figures.putAll(OldClient.run(quick, Pattern.compile(rows)));
            default -> throw new IllegalArgumentException("--only is clients or old-client");
        }
        json.writerWithDefaultPrettyPrinter()
                .writeValue(new File(option(words, "--out", "figures.json")), figures);
    }

    private static String option(List<String> words, String name, String otherwise) {
        int at = words.indexOf(name);
        return at < 0 ? otherwise : words.get(at + 1);
    }
}
