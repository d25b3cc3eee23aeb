package cellar.bench;

import java.util.ArrayList;
import java.util.List;

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

    List<Double> rounds() {
        return rounds;
    }
}
