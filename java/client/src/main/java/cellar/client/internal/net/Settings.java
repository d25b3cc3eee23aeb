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
 * @param lanes connections to a node on which callers wait
 * @param checked whether the server is asked for a sign of life before callers' requests are sent
 * @param nagle whether the system may hold small requests back to send more at once
 * @param inFlightMax most requests to a node that are not answered
 * @param tls null for none
 * @param user null for no authentication
 * @param password goes with {@code user}
 * @param redis whether servers speak Redis's protocol
 * @param metrics who is told
 * @param guard a key without which a process is not talked to; null for none
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
    /** What is spoken before a server has told its version. */
    public Dialect firstDialect() {
        return redis ? Dialect.RESP : Dialect.CLASSIC;
    }

    /** What a server says to {@link #authentication} if it is content. */
    public String authenticated() {
        return redis ? "OK" : "STORED";
    }

    /** The lines with which a connection authenticates itself; null if it does not. */
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

    /** The same for processes only that have an item under {@code key}. */
    public Settings guarded(String key) {
        return copy(metrics, key);
    }

    /** The same, and nobody is told of anything. */
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

    /** What is asked for the {@link #guard}; null for nothing. */
    public @Nullable String guardRequest() {
        return guard == null ? null : "mg " + guard + " s\r\n";
    }

    /** What is wrong with a process that answered {@code line} to that. */
    public static @Nullable CacheException guardFailure(String name, String line) {
        return line.startsWith("HD")
                ? null
                : new CacheException.Connection(name + " is not the process it was", null);
    }

    @Override
    public String toString() {
        return "Settings[timeout=" + timeout + ", pipes=" + pipes + ", lanes=" + lanes + "]";
    }
}
