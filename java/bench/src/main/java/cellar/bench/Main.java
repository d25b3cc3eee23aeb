package cellar.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Runs one of the measurements: every client on every server, or {@link OldClient}.
 *
 * <p>{@code --quick} shows only that everything works, {@code --full} takes hours; {@code --out
 * FILE} is where the figures go as JSON, {@code --only PART} says {@code clients} or {@code
 * old-client}, {@code --rows TEXT} keeps only those rows whose title has it, for {@code old-client}
 * a regular expression. The property {@code bench.setting} holds machine, date and commit as JSON
 * and stands in the figures as it is.
 */
public final class Main {
    private Main() {}

    /** See the class. */
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
