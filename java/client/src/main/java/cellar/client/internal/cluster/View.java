package cellar.client.internal.cluster;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What all clients say of the nodes together. Immutable.
 *
 * <p>Each node has a number that only rises: in, out, being filled, in again, and so on. Of two
 * views both are true as far as they go; the higher number of each node is the later. So views can
 * be merged in any order, and no client has to be asked first.
 *
 * <p>A second number of each node only rises, too: odd when a client requests that the node is
 * filled, even when one that does not list the node refuses it.
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

    static final View EMPTY = new View(new TreeMap<>(), new TreeMap<>());

    private static final int STATES = State.values().length;

    private final TreeMap<String, Integer> numbers;
    private final TreeMap<String, Integer> requests;
    private final String text;
    private final int number;

    private View(TreeMap<String, Integer> numbers, TreeMap<String, Integer> requests) {
        this.numbers = numbers;
        this.requests = requests;
        this.text = text(numbers, requests);
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
        return new View(changed, requests);
    }

    /** The view with {@code node} in it, as it is at first. */
    View with(String node) {
        TreeMap<String, Integer> changed = new TreeMap<>(numbers);
        changed.putIfAbsent(node, 0);
        return new View(changed, requests);
    }

    /** The view in which the filling of {@code node} is requested. */
    View requesting(String node) {
        return isRequested(node) ? this : nextRequest(node);
    }

    /** The view in which no filling of {@code node} is requested. */
    View refusing(String node) {
        return isRequested(node) ? nextRequest(node) : this;
    }

    private View nextRequest(String node) {
        TreeMap<String, Integer> changed = new TreeMap<>(requests);
        changed.merge(node, 1, Integer::sum);
        return new View(numbers, changed);
    }

    /** Whether a client wants {@code node} filled, and none has refused that since. */
    boolean isRequested(String node) {
        return requests.getOrDefault(node, 0) % 2 == 1;
    }

    /** What both say. */
    View merged(View other) {
        return new View(merged(numbers, other.numbers), merged(requests, other.requests));
    }

    private static TreeMap<String, Integer> merged(
            TreeMap<String, Integer> one, TreeMap<String, Integer> other) {
        TreeMap<String, Integer> merged = new TreeMap<>(one);
        other.forEach((node, number) -> merged.merge(node, number, Math::max));
        return merged;
    }

    /** Whether the states of all nodes are the same in both. */
    boolean hasStatesOf(View other) {
        return numbers.equals(other.numbers);
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
        return new View(wide, new TreeMap<>());
    }

    boolean knows(String node) {
        return numbers.containsKey(node);
    }

    /** All nodes that it tells of. */
    Set<String> nodes() {
        return Collections.unmodifiableSet(numbers.keySet());
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

    /** As it lies on the nodes: {@code number request node} in each line. */
    String text() {
        return text;
    }

    private static String text(
            TreeMap<String, Integer> numbers, TreeMap<String, Integer> requests) {
        StringBuilder text = new StringBuilder();
        numbers.forEach(
                (node, number) ->
                        text.append(number)
                                .append(' ')
                                .append(requests.getOrDefault(node, 0))
                                .append(' ')
                                .append(node)
                                .append('\n'));
        return text.toString();
    }

    /** Reads {@link #text}; a number that is none is 0. */
    static View parse(String text) {
        TreeMap<String, Integer> numbers = new TreeMap<>();
        TreeMap<String, Integer> requests = new TreeMap<>();
        for (String line : text.split("\n")) {
            String[] parts = line.split(" ", 3);
            if (parts.length == 3) {
                numbers.put(parts[2], parsed(parts[0]));
                requests.put(parts[2], parsed(parts[1]));
            }
        }
        return new View(numbers, requests);
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
