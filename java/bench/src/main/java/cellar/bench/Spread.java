package cellar.bench;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** What rounds gave: their median counts, the smallest and largest stand beside it. */
final class Spread {
    private final List<Double> rounds = new ArrayList<>();

    void add(double figure) {
        rounds.add(figure);
    }

    double median() {
        return median(rounds);
    }

    static double median(List<Double> figures) {
        List<Double> sorted = figures.stream().sorted().toList();
        int middle = sorted.size() / 2;
        return sorted.size() % 2 == 1
                ? sorted.get(middle)
                : (sorted.get(middle - 1) + sorted.get(middle)) / 2;
    }

    Map<String, Object> json() {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("median", median());
        all.put("min", Collections.min(rounds));
        all.put("max", Collections.max(rounds));
        all.put("rounds", rounds);
        return all;
    }

    /** The median, and the range if there is one, each divided by {@code unit}. */
    String text(double unit, int decimals) {
        String form = "%." + decimals + "f";
        String middle = String.format(Locale.ROOT, form, median() / unit);
        if (rounds.size() == 1) {
            return middle;
        }
        String range = " (" + form + "-" + form + ")";
        return middle
                + String.format(
                        Locale.ROOT,
                        range,
                        Collections.min(rounds) / unit,
                        Collections.max(rounds) / unit);
    }
}
