package cellar.client.internal.wire;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;

/**
 * Lists a node's keys: {@code lru_crawler metadump}. Needs a separate connection.
 *
 * <p>Later versions of memcached send {@code OK} before the first key.
 */
public final class ListOperation extends Operation<Set<String>> {
    /** What the server iterates over. */
    public enum Walk {
        /** The hash table: includes every key that exists all the time. Not in old versions. */
        HASH,
        /** The LRU lists: misses items that move from one list to another. */
        LISTS
    }

    private static final String HASH = "lru_crawler metadump hash";
    private static final String ALL = "lru_crawler metadump all";

    private final Walk walk;
    private final Set<String> keys = new HashSet<>();

    /** Lists in the order of {@code walk}. */
    public ListOperation(Walk walk) {
        this.walk = walk;
    }

    @Override
    public void encode(Out out, Dialect dialect) {
        out.put(walk == Walk.HASH ? HASH : ALL).end();
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        while (in.line()) {
            if (in.is("END")) {
                in.takeLine();
                return true;
            }
            if (in.is("OK") && keys.isEmpty()) {
                in.takeLine();
                continue;
            }
            if (!in.begins("key=")) {
                return refused(in);
            }
            String line = in.text();
            String key = line.substring(4, line.indexOf(' '));
            keys.add(URLDecoder.decode(key.replace("+", "%2B"), StandardCharsets.UTF_8));
            in.takeLine();
        }
        return false;
    }

    @Override
    protected Set<String> answer() {
        return keys;
    }

    @Override
    public String name() {
        return "keys";
    }
}
