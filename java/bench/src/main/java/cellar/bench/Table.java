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

    String markdown() {
        StringBuilder text = new StringBuilder();
        text.append("Thousand requests per second, mean and error of JMH; x best is Cellar's\n");
        text.append("client over the best of the others in the same row.\n\n");
        text.append("| row | ").append(String.join(" | ", Peer.names())).append(" | x best |\n");
        text.append("|---|").append("---|".repeat(Peer.names().size() + 1)).append('\n');
        rows.forEach(
                (title, row) -> {
                    text.append("| ").append(title).append(" |");
                    for (String client : Peer.names()) {
                        text.append(' ').append(cell(row.get(client))).append(" |");
                    }
                    text.append(
                            String.format(Locale.ROOT, " %.2f (%s) |%n", ratio(row), best(row)));
                });
        return text.toString();
    }

    private static String cell(Result<?> result) {
        if (result == null) {
            return "-";
        }
        double error = result.getScoreError();
        String mean = String.format(Locale.ROOT, "%.1f", result.getScore() / 1000);
        return Double.isNaN(error)
                ? mean
                : mean + String.format(Locale.ROOT, " ± %.1f", error / 1000);
    }
}
