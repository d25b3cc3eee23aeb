package cellar.client.internal.wire;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;

/**
 * Lists a node's keys: {@code lru_crawler metadump all}. Needs a connection of its own.
 *
 * <p>Later versions of memcached say {@code OK} before the first key.
 */
public final class ListOperation extends Operation<Set<String>> {
    private final Set<String> keys = new HashSet<>();

    @Override
    public void encode(Out out, Dialect dialect) {
        out.put("lru_crawler metadump all").end();
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
