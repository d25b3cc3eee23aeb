package cellar.client.internal.cluster;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * The state of all nodes, on which all clients agree. Immutable.
 *
 * <p>Each node has a number that only increases: in, out, being filled, in again, and so on. The
 * higher number of a node is the later state. So views can be merged in any order, without
 * coordination between clients.
 *
 * <p>A second number of each node only increases, too. It is odd when a client requests that the
 * node is filled, and even when a client that does not list the node has refused.
 */
final class View {
    /** The state of a node. */
    enum State {
        /** It has everything; clients read, change and copy to it. */
        IN,
        /** It lacks changes; clients do not use it. */
        OUT,
        /** It gets all changes and the items that it lacks. */
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

    /** Returns a view with this state of {@code node}; the node's number increases in any case. */
    View with(String node, State state) {
        TreeMap<String, Integer> changed = new TreeMap<>(numbers);
        int number = number(node) + 1;
        while (number % STATES != state.ordinal()) {
            number++;
        }
        changed.put(node, number);
        return new View(changed, requests);
    }

    /** Returns a view that contains {@code node}, with its initial state. */
    View with(String node) {
        TreeMap<String, Integer> changed = new TreeMap<>(numbers);
        changed.putIfAbsent(node, 0);
        return new View(changed, requests);
    }

    /** Returns a view that requests that {@code node} is filled. */
    View requesting(String node) {
        return isRequested(node) ? this : nextRequest(node);
    }

    /** Returns a view that does not request that {@code node} is filled. */
    View refusing(String node) {
        return isRequested(node) ? nextRequest(node) : this;
    }

    private View nextRequest(String node) {
        TreeMap<String, Integer> changed = new TreeMap<>(requests);
        changed.merge(node, 1, Integer::sum);
        return new View(numbers, changed);
    }

    /** Whether a client has requested that {@code node} is filled and none has refused since. */
    boolean isRequested(String node) {
        return requests.getOrDefault(node, 0) % 2 == 1;
    }

    /** Returns the higher numbers of both. */
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
     * Returns a view in which every node is in that is in this view or the {@code later} one, or
     * may have been in between, in a view that other clients have seen.
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

    /** Returns all nodes that it contains. */
    Set<String> nodes() {
        return Collections.unmodifiableSet(numbers.keySet());
    }

    State state(String node) {
        return State.values()[number(node) % STATES];
    }

    /** Returns the node's number; it increases with each change of the node's state. */
    int number(String node) {
        return numbers.getOrDefault(node, 0);
    }

    /** Returns a number that increases with each change. */
    int number() {
        return number;
    }

    /** Returns the nodes in this state. */
    List<String> nodes(State state) {
        return numbers.keySet().stream().filter(node -> state(node) == state).toList();
    }

    /** Returns the text stored on the nodes: {@code number request node} in each line. */
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

    /** Parses {@link #text}; an invalid number is 0. */
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
