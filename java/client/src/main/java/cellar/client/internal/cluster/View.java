package cellar.client.internal.cluster;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What all clients say of the nodes together. Immutable.
 *
 * <p>Each node has a number that only rises: in, out, being filled, in again, and so on. Of two
 * views both are true as far as they go; the higher number of each node is the later. So views can
 * be merged in any order, and no client has to be asked first.
 */
final class View {
    /** Whether a node is believed. */
    enum State {
        /** It has everything: read, changed, copied to. */
        IN,
        /** It lacks changes: nobody asks it. */
        OUT,
        /** It gets all changes, and what it lacks. */
        FILLING
    }

    static final View EMPTY = new View(new TreeMap<>());

    private static final int STATES = State.values().length;

    private final TreeMap<String, Integer> numbers;
    private final String text;
    private final int number;

    private View(TreeMap<String, Integer> numbers) {
        this.numbers = numbers;
        this.text = text(numbers);
        this.number = numbers.values().stream().mapToInt(Integer::intValue).sum();
    }

    /** The view with another state of {@code node}; the next one if it is the same already. */
    View with(String node, State state) {
        TreeMap<String, Integer> changed = new TreeMap<>(numbers);
        int number = number(node) + 1;
        while (number % STATES != state.ordinal()) {
            number++;
        }
        changed.put(node, number);
        return new View(changed);
    }

    /** The view with {@code node} in it, as it is at first. */
    View with(String node) {
        TreeMap<String, Integer> changed = new TreeMap<>(numbers);
        changed.putIfAbsent(node, 0);
        return new View(changed);
    }

    /** What both say. */
    View merged(View other) {
        TreeMap<String, Integer> merged = new TreeMap<>(numbers);
        other.numbers.forEach((node, number) -> merged.merge(node, number, Math::max));
        return new View(merged);
    }

    /**
     * In it every node is in that is in this view or in the {@code later} one, or may have been in
     * any between, which others may have seen.
     */
    View until(View later) {
        TreeMap<String, Integer> wide = new TreeMap<>();
        later.numbers.forEach(
                (node, last) -> {
                    int first = numbers.getOrDefault(node, -1);
                    int lastIn = last - last % STATES;
                    boolean wasIn = lastIn > first || knows(node) && state(node) == State.IN;
                    wide.put(node, (wasIn ? State.IN : State.OUT).ordinal());
                });
        return new View(wide);
    }

    boolean knows(String node) {
        return numbers.containsKey(node);
    }

    State state(String node) {
        return State.values()[number(node) % STATES];
    }

    /** Rises whenever the node's state changes. */
    int number(String node) {
        return numbers.getOrDefault(node, 0);
    }

    /** Rises whenever anything changes. */
    int number() {
        return number;
    }

    /** The nodes in this state. */
    List<String> nodes(State state) {
        return numbers.keySet().stream().filter(node -> state(node) == state).toList();
    }

    /** As it lies on the nodes: {@code number node} in each line. */
    String text() {
        return text;
    }

    private static String text(TreeMap<String, Integer> numbers) {
        StringBuilder text = new StringBuilder();
        numbers.forEach(
                (node, number) -> text.append(number).append(' ').append(node).append('\n'));
        return text.toString();
    }

    /** Reads {@link #text}; a number that is none is 0. */
    static View parse(String text) {
        TreeMap<String, Integer> numbers = new TreeMap<>();
        for (String line : text.split("\n")) {
            int space = line.indexOf(' ');
            if (space > 0) {
                numbers.put(line.substring(space + 1), parsed(line.substring(0, space)));
            }
        }
        return new View(numbers);
    }

    private static int parsed(String digits) {
        try {
            return Math.max(0, Integer.parseInt(digits));
        } catch (NumberFormatException e) {
            return 0;
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof View view && view.text.equals(text);
    }

    @Override
    public int hashCode() {
        return text.hashCode();
    }

    @Override
    public String toString() {
        Map<String, String> states = new TreeMap<>();
        numbers.forEach((node, number) -> states.put(node, state(node) + "#" + number));
        return states.toString();
    }
}
