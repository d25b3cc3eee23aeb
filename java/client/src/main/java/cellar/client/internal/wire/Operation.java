package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * A request and, later, its answer: how it is said in each dialect, and how the reply is read.
 *
 * <p>Knows no sockets, nor who waits for it and for how long. A connection calls {@link #encode}
 * once (again if it broke), {@link #decode} until it returns true, then {@link #finish}. A request
 * is its own stage, so that whoever asks gets what was sent and needs no other object.
 *
 * @param <R> type of the answer
 */
public abstract class Operation<R extends @Nullable Object> extends CompletableFuture<R> {
    private @Nullable CacheException refusal;

    /** About how many bytes the request has. */
    public int size() {
        return 64;
    }

    /** The connection that suits it best; null if any does. */
    public @Nullable Link prefers() {
        return null;
    }

    /** Is about to be encoded for {@code link}; a connection on which callers wait has none. */
    public void goesOver(Link link) {}

    /** Appends the request. */
    public abstract void encode(Out out, Dialect dialect);

    /**
     * Takes as much of the reply as there is; true if that was all of it.
     *
     * @throws CacheException.Protocol if this is no reply to the request
     */
    public abstract boolean decode(In in, Dialect dialect);

    /** The answer, once {@link #decode} has returned true. */
    protected abstract R answer();

    /** What is counted for this operation. */
    public abstract String name();

    /** Whether sending it twice does the same as sending it once. */
    public boolean isRepeatable() {
        return false;
    }

    /** Whether the reply said that there is no such item. */
    public boolean isMiss() {
        return false;
    }

    /** Completes with the answer, or with what the server refused. */
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

    /** Takes the current line as the server's refusal. */
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
