package cellar.client.internal.net;

import cellar.client.CacheMetrics;
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
 * @param inFlightMax most requests to a node that are not answered
 * @param tls null for none
 * @param user null for no authentication
 * @param password goes with {@code user}
 * @param metrics who is told
 */
public record Settings(
        Duration timeout,
        Duration connectTimeout,
        Duration backoffMin,
        Duration backoffMax,
        int pipes,
        int lanes,
        int inFlightMax,
        @Nullable SSLContext tls,
        @Nullable String user,
        @Nullable String password,
        CacheMetrics metrics) {
    /** The lines with which a connection authenticates itself; null if it does not. */
    public @Nullable String authentication() {
        if (user == null) {
            return null;
        }
        String secret = user + " " + (password == null ? "" : password);
        int bytes = secret.getBytes(java.nio.charset.StandardCharsets.UTF_8).length;
        return "set auth 0 0 " + bytes + "\r\n" + secret + "\r\n";
    }

    @Override
    public String toString() {
        return "Settings[timeout=" + timeout + ", pipes=" + pipes + ", lanes=" + lanes + "]";
    }
}
