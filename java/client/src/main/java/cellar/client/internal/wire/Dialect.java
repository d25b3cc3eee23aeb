package cellar.client.internal.wire;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The protocol of a server, detected when a connection is opened.
 *
 * <p>The Redis protocol is not detected but configured; then all other fields are unset.
 *
 * @param meta whether the server supports the meta commands
 * @param conditionalGet whether {@code mg} with {@code C} omits a value of the same version
 * @param cellar whether it is Cellar
 * @param version as the server sent it
 * @param resp whether it is the Redis protocol
 */
public record Dialect(
        boolean meta, boolean conditionalGet, boolean cellar, String version, boolean resp) {
    /** The classic commands, which every memcached server supports. */
    public static final Dialect CLASSIC = new Dialect(false, false, false, "", false);

    /** The Redis protocol. */
    public static final Dialect RESP = new Dialect(false, false, false, "", true);

    private static final Pattern NUMBERS = Pattern.compile("(\\d+)\\.(\\d+)\\.(\\d+).*");

    /** memcached 1.6.0 introduced the meta commands in their present form. */
    private static final long META_SINCE = number(1, 6, 0);

    /** Source: memcached's release notes of 1.6.40. */
    private static final long CONDITIONAL_SINCE = number(1, 6, 40);

    /** Returns the dialect of a server; {@code answersMeta} means that {@code mn} had its reply. */
    public static Dialect of(String version, boolean answersMeta) {
        boolean meta = answersMeta && number(version) >= META_SINCE;
        boolean cellar = version.contains("cellar");
        boolean conditional = meta && number(version) >= CONDITIONAL_SINCE;
        return new Dialect(meta, conditional, cellar, version, false);
    }

    /** Whether a server of this version may support {@code mn}. */
    public static boolean mayBeMeta(String version) {
        return number(version) >= META_SINCE;
    }

    private static long number(String version) {
        Matcher numbers = NUMBERS.matcher(version);
        if (!numbers.matches()) {
            return 0;
        }
        return number(
                Long.parseLong(numbers.group(1)),
                Long.parseLong(numbers.group(2)),
                Long.parseLong(numbers.group(3)));
    }

    private static long number(long major, long minor, long patch) {
        return major * 1_000_000 + minor * 1_000 + patch;
    }
}
