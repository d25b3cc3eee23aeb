package cellar.bench;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Map.Entry;
import java.util.stream.Collectors;

/** Requests per second of all clients under one load, and how the own one compares. */
final class Row {
    static final String OWN = "cellar";

    private final Plan.Load load;
    private final String value;
    private final String server;
    private final Map<String, Spread> clients = new LinkedHashMap<>();

    Row(Plan.Load load, String value, String server) {
        this.load = load;
        this.value = value;
        this.server = server;
    }

    String title() {
        return load.title() + ", " + value + ", " + server;
    }

    Plan.Load load() {
        return load;
    }

    String value() {
        return value;
    }

    String server() {
        return server;
    }

    void add(String client, double perSecond) {
        clients.computeIfAbsent(client, name -> new Spread()).add(perSecond);
    }

    /** A client that could not do it has no further rounds. */
    void failed(String client, String why) {
        clients.remove(client);
        Main.show(title() + ": " + client + " failed: " + why);
    }

    /** The own client and the {@code count} best of the others. */
    List<String> finalists(int count) {
        List<String> best =
                clients.entrySet().stream()
                        .filter(entry -> !entry.getKey().equals(OWN))
                        .sorted((a, b) -> Double.compare(median(b), median(a)))
                        .limit(count)
                        .map(Entry::getKey)
                        .toList();
        return clients.keySet().stream()
                .filter(name -> name.equals(OWN) || best.contains(name))
                .toList();
    }

    private static double median(Entry<String, Spread> entry) {
        return entry.getValue().median();
    }

    private String best() {
        return finalists(1).stream().filter(name -> !name.equals(OWN)).findFirst().orElse("");
    }

    private double ratio() {
        Spread best = clients.get(best());
        return best == null ? Double.NaN : clients.get(OWN).median() / best.median();
    }

    String verdict() {
        return String.format(Locale.ROOT, "%.2f (%s)", ratio(), best());
    }

    /** A cell for each client as JSON; titles and names hold nothing that JSON escapes. */
    String json() {
        return clients.entrySet().stream()
                .map(
                        entry ->
                                String.format(
                                        Locale.ROOT,
                                        "{\"row\": \"%s\", \"client\": \"%s\", "
                                                + "\"requests_per_s\": %.1f, "
                                                + "\"rounds_per_s\": %s}",
                                        title(),
                                        entry.getKey(),
                                        entry.getValue().median(),
                                        entry.getValue().rounds()))
                .collect(Collectors.joining(",\n"));
    }
}
