package cellar.bench;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/** The values that are stored. */
public final class Values {
    /** A typical cached object: some fields and a list of parts. */
    public record Order(long id, String customer, String state, List<Line> lines)
            implements Serializable {}

    /** A part of an {@link Order}. */
    public record Line(String product, int count, double price) implements Serializable {}

    private static final int LINES = 12;

    private Values() {}

    /** Returns the value of a kind: {@code 100B}, {@code 4KiB} or {@code object}. */
    public static Object of(String kind) {
        return switch (kind) {
            case "100B" -> "x".repeat(100);
            case "4KiB" -> text(4096);
            case "object" -> order();
            default -> throw new IllegalArgumentException("no value " + kind);
        };
    }

    /** Returns text that does not compress well. */
    private static String text(int length) {
        StringBuilder text = new StringBuilder(length);
        java.util.SplittableRandom random = new java.util.SplittableRandom(1);
        while (text.length() < length) {
            text.append((char) ('!' + random.nextInt(90)));
        }
        return text.toString();
    }

    private static Order order() {
        List<Line> lines = new ArrayList<>();
        for (int i = 0; i < LINES; i++) {
            lines.add(new Line("product-" + i * 7919, i + 1, 9.99 * i));
        }
        return new Order(4711, "Ada Lovelace", "SHIPPED", lines);
    }
}
