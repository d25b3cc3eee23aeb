package cellar.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.openjdk.jmh.results.Result;

/** Requests per second by row and client, and how the first client compares with the best other. */
final class Table {
    private final Map<String, Map<String, Result<?>>> rows = new LinkedHashMap<>();

    void add(String row, String client, Result<?> result) {
        rows.computeIfAbsent(row, title -> new LinkedHashMap<>()).put(client, result);
    }

    private static double own(Map<String, Result<?>> row) {
        return row.get("cellar").getScore();
    }

    private static String best(Map<String, Result<?>> row) {
        String best = "";
        double score = 0;
        for (Map.Entry<String, Result<?>> entry : row.entrySet()) {
            if (!entry.getKey().equals("cellar") && entry.getValue().getScore() > score) {
                best = entry.getKey();
                score = entry.getValue().getScore();
            }
        }
        return best;
    }

    private static double ratio(Map<String, Result<?>> row) {
        return own(row) / row.get(best(row)).getScore();
    }

    /** The row added last. */
    String last() {
        List<String> titles = new ArrayList<>(rows.keySet());
        String title = titles.get(titles.size() - 1);
        Map<String, Result<?>> row = rows.get(title);
        return String.format(Locale.ROOT, "%s: %.2f x %s", title, ratio(row), best(row));
    }

    /** All rows as JSON; {@code setting} is JSON already. */
    String json(String setting) {
        List<String> cells = new ArrayList<>();
        rows.forEach(
                (title, row) ->
                        row.forEach((client, result) -> cells.add(cell(title, client, result))));
        return "{\n\"setting\": "
                + setting
                + ",\n\"rows\": [\n"
                + String.join(",\n", cells)
                + "\n]}\n";
    }

    /** One cell; titles and names hold nothing that JSON escapes. */
    private static String cell(String title, String client, Result<?> result) {
        double error = result.getScoreError();
        return String.format(
                Locale.ROOT,
                "{\"row\": \"%s\", \"client\": \"%s\", \"requests_per_s\": %.1f, \"error_per_s\": %s}",
                title,
                client,
                result.getScore(),
                Double.isFinite(error) ? String.format(Locale.ROOT, "%.1f", error) : "null");
    }
}
