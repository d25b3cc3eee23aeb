package cellar.client.testing;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Records which versions clients send in reads, and whether the same connection had delivered them.
 */
public final class Versions {
    private static final Pattern NAMED = Pattern.compile("^mg \\S+ .*\\bC(\\d+)");
    private static final Pattern TOLD = Pattern.compile("^(?:VA \\d+|HD) .*\\bc(\\d+)");

    private final AtomicInteger known = new AtomicInteger();
    private final AtomicInteger foreign = new AtomicInteger();

    /** Returns the filter of one connection. */
    public Cable.Filter filter() {
        return new Cable.Filter() {
            private final Set<String> told = ConcurrentHashMap.newKeySet();
            private final StringBuilder sent = new StringBuilder();
            private final StringBuilder answered = new StringBuilder();

            @Override
            public byte[] sent(byte[] bytes) {
                for (String version : found(NAMED, sent, bytes)) {
                    (told.contains(version) ? known : foreign).incrementAndGet();
                }
                return bytes;
            }

            @Override
            public byte[] answered(byte[] bytes) {
                told.addAll(found(TOLD, answered, bytes));
                return bytes;
            }
        };
    }

    /** Returns the matches of {@code pattern} in the lines that {@code more} completes. */
    private static Set<String> found(Pattern pattern, StringBuilder rest, byte[] more) {
        rest.append(new String(more, StandardCharsets.ISO_8859_1));
        Set<String> all = new HashSet<>();
        for (int end = rest.indexOf("\r\n"); end >= 0; end = rest.indexOf("\r\n")) {
            Matcher line = pattern.matcher(rest.substring(0, end));
            if (line.find()) {
                all.add(line.group(1));
            }
            rest.delete(0, end + 2);
        }
        return all;
    }

    /** Returns how often a version was sent that its connection had delivered. */
    public int known() {
        return known.get();
    }

    /** Returns how often another version was sent. */
    public int foreign() {
        return foreign.get();
    }
}
