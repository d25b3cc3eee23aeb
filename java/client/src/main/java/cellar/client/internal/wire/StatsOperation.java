package cellar.client.internal.wire;

import java.util.HashMap;
import java.util.Map;

/** Reads {@code stats}: a name and a value in each line. */
public final class StatsOperation extends Operation<Map<String, String>> {
    private final Map<String, String> stats = new HashMap<>();

    @Override
    public void encode(Out out, Dialect dialect) {
        out.put("stats").end();
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        while (in.line()) {
            if (in.is("END")) {
                in.takeLine();
                return true;
            }
            String[] words = in.text().split(" ", 3);
            if (!words[0].equals("STAT") || words.length != 3) {
                return refused(in);
            }
            stats.put(words[1], words[2]);
            in.takeLine();
        }
        return false;
    }

    @Override
    protected Map<String, String> answer() {
        return stats;
    }

    @Override
    public String name() {
        return "stats";
    }
}
