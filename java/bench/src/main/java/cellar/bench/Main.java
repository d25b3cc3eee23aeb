package cellar.bench;

import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Runs all measurements: every client on every server, then the table of S3.
 *
 * <p>{@code --quick} shows only that everything works, {@code --full} takes hours; {@code --out
 * FOLDER} is where the figures go, {@code --only PART} runs {@code clients} or {@code s3} alone,
 * {@code --rows TEXT} only those clients' rows whose title has it.
 */
public final class Main {
    private Main() {}

    /** See the class. */
    public static void main(String[] arguments) throws Exception {
        List<String> words = List.of(arguments);
        Path out = Path.of(option(words, "--out", "target"));
        String part = option(words, "--only", "");
        Files.createDirectories(out);
        Plan plan = plan(words);
        String command = "bench/java.sh " + String.join(" ", words);
        String shown = command.replace(out.toString(), out.getFileName().toString());
        Map<String, Object> setting = Setting.here(shown, Cores.split());
        if (!part.equals("s3")) {
            ClientRows.run(plan, option(words, "--rows", ""), setting, out);
        }
        if (!part.equals("clients")) {
            S3.run(plan.quick(), setting, out);
        }
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

    static void json(Path file, Object content) throws IOException {
        JsonMapper mapper = JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();
        Files.writeString(file, mapper.writeValueAsString(content) + "\n");
    }

    /** The setting as the last line of a table. */
    static String footer(Map<String, Object> setting) {
        return setting.entrySet().stream()
                        .map(entry -> entry.getKey() + ": " + entry.getValue())
                        .collect(Collectors.joining("; "))
                + "\n";
    }
}
