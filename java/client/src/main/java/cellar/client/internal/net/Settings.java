package cellar.client.internal.net;

import cellar.client.CacheException;
import cellar.client.CacheMetrics;
import cellar.client.internal.wire.Dialect;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;

/**
 * How connections are made and kept. Immutable.
 *
 * @param timeout of every request
 * @param connectTimeout of a connection, up to its first answer
 * @param backoffMin first pause after a failed connection
 * @param backoffMax longest pause
 * @param pipes asynchronous connections to a node
 * @param lanes connections to a node for blocking calls
 * @param checked whether a connection is checked before it sends requests of blocking calls
 * @param nagle whether Nagle's algorithm may delay small requests
 * @param inFlightMax limit of unanswered requests to a node
 * @param tls null for none
 * @param user null for no authentication
 * @param password of {@code user}
 * @param redis whether servers use the Redis protocol
 * @param metrics receives events
 * @param guard a key that a process must have to be used; null for none
 */
public record Settings(
        Duration timeout,
        Duration connectTimeout,
        Duration backoffMin,
        Duration backoffMax,
        int pipes,
        int lanes,
        boolean checked,
        boolean nagle,
        int inFlightMax,
        @Nullable SSLContext tls,
        @Nullable String user,
        @Nullable String password,
        boolean redis,
        CacheMetrics metrics,
        @Nullable String guard) {
    /** Returns the dialect used before the server has sent its version. */
    public Dialect firstDialect() {
        return redis ? Dialect.RESP : Dialect.CLASSIC;
    }

    /** Returns the server's reply to a successful {@link #authentication}. */
    public String authenticated() {
        return redis ? "OK" : "STORED";
    }

    /** Returns the request that authenticates a connection; null for no authentication. */
    public @Nullable String authentication() {
        if (user == null) {
            return null;
        }
        if (redis) {
            return "*3\r\n" + word("AUTH") + word(user) + word(password == null ? "" : password);
        }
        String secret = user + " " + (password == null ? "" : password);
        int bytes = secret.getBytes(StandardCharsets.UTF_8).length;
        return "set auth 0 0 " + bytes + "\r\n" + secret + "\r\n";
    }

    private static String word(String word) {
        return "$" + word.getBytes(StandardCharsets.UTF_8).length + "\r\n" + word + "\r\n";
    }

    /** Returns these settings, limited to processes that have an item under {@code key}. */
    public Settings guarded(String key) {
        return copy(metrics, key);
    }

    /** Returns these settings without metrics. */
    public Settings quiet() {
        return copy(CacheMetrics.NONE, guard);
    }

    private Settings copy(CacheMetrics told, @Nullable String key) {
        return new Settings(
                timeout,
                connectTimeout,
                backoffMin,
                backoffMax,
                pipes,
                lanes,
                checked,
                nagle,
                inFlightMax,
                tls,
                user,
                password,
                redis,
                told,
                key);
    }

    /** Returns the request for the {@link #guard}; null if there is none. */
    public @Nullable String guardRequest() {
        return guard == null ? null : "mg " + guard + " s\r\n";
    }

    /** Returns the failure for a process that answered {@code line} to that request, or null. */
    public static @Nullable CacheException guardFailure(String name, String line) {
        return line.startsWith("HD")
                ? null
                : new CacheException.Connection(name + " is another process than before", null);
    }

    @Override
    public String toString() {
        return "Settings[timeout=" + timeout + ", pipes=" + pipes + ", lanes=" + lanes + "]";
    }
}
