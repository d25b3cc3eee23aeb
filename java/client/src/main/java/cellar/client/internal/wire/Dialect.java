package cellar.client.internal.wire;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a server understands, found out when a connection is opened.
 *
 * <p>Redis's protocol is not found out but chosen: then nothing else is there.
 *
 * @param meta whether it has the meta commands
 * @param conditionalGet whether {@code mg} with {@code C} leaves out a value of the same version
 * @param cellar whether it is Cellar
 * @param version as the server gave it
 * @param resp whether it is Redis's protocol
 */
public record Dialect(
        boolean meta, boolean conditionalGet, boolean cellar, String version, boolean resp) {
    /** Every server of memcached's protocol understands this. */
    public static final Dialect CLASSIC = new Dialect(false, false, false, "", false);

    /** Redis's protocol. */
    public static final Dialect RESP = new Dialect(false, false, false, "", true);

    private static final Pattern NUMBERS = Pattern.compile("(\\d+)\\.(\\d+)\\.(\\d+).*");

    /** Meta commands have had their form of now since memcached 1.6.0. */
    private static final long META_SINCE = number(1, 6, 0);

    /** Source: memcached's release notes of 1.6.40. */
    private static final long CONDITIONAL_SINCE = number(1, 6, 40);

    /**
     * The dialect of a server with this version; {@code answersMeta} if {@code mn} had its reply.
     */
    public static Dialect of(String version, boolean answersMeta) {
        boolean meta = answersMeta && number(version) >= META_SINCE;
        boolean cellar = version.contains("cellar");
        boolean conditional = meta && number(version) >= CONDITIONAL_SINCE;
        return new Dialect(meta, conditional, cellar, version, false);
    }

    /** Whether it makes sense to ask a server with this version for {@code mn}. */
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
