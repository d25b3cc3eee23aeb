package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * A request and its answer: encodes the request for each dialect and decodes the reply.
 *
 * <p>It does not know about sockets, callers or deadlines. A connection calls {@link #encode} once
 * (again if it broke), {@link #decode} until it returns true, then {@link #finish}. A request is
 * its own stage, so callers need no other object.
 *
 * @param <R> type of the answer
 */
public abstract class Operation<R extends @Nullable Object> extends CompletableFuture<R> {
    private @Nullable CacheException refusal;

    /** Returns the approximate size of the request in bytes. */
    public int size() {
        return 64;
    }

    /** Returns the connection that it prefers; null if it may use any. */
    public @Nullable Link prefers() {
        return null;
    }

    /**
     * Called before it is encoded for {@code link}; not called on connections of blocking calls.
     */
    public void goesOver(Link link) {}

    /** Appends the request to {@code out}. */
    public abstract void encode(Out out, Dialect dialect);

    /**
     * Consumes as much of the reply as has arrived; true if the reply is complete.
     *
     * @throws CacheException.Protocol if this is not a reply to the request
     */
    public abstract boolean decode(In in, Dialect dialect);

    /** Returns the answer, once {@link #decode} has returned true. */
    protected abstract R answer();

    /** Returns the name of this operation in metrics. */
    public abstract String name();

    /** Whether sending it twice has the same effect as once. */
    public boolean isRepeatable() {
        return false;
    }

    /** Whether the reply says that the item does not exist. */
    public boolean isMiss() {
        return false;
    }

    /** Completes with the answer or the server's error. */
    public final void finish() {
        CacheException refused = refusal;
        if (refused != null) {
            completeExceptionally(refused);
            return;
        }
        try {
            complete(answer());
        } catch (CacheException e) {
            completeExceptionally(e);
        } catch (RuntimeException e) {
            completeExceptionally(new CacheException.Coding("a value cannot be decoded", e));
        }
    }

    /** Consumes the current line as an error of the server. */
    protected final boolean refused(In in) {
        String line = in.text();
        boolean known =
                line.equals("ERROR")
                        || line.startsWith("-")
                        || line.startsWith("SERVER_ERROR")
                        || line.startsWith("CLIENT_ERROR")
                        || line.startsWith("BADCLASS")
                        || line.startsWith("BUSY");
        if (!known) {
            throw new CacheException.Protocol(name() + " was answered with " + shown(line));
        }
        in.takeLine();
        refusal = new CacheException.Refused(shown(line));
        return true;
    }

    private static String shown(String line) {
        return line.length() > 120 ? line.substring(0, 120) + "..." : line;
    }
}
