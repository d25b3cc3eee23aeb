package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * A request and, later, its answer: how it is said in each dialect, and how the reply is read.
 *
 * <p>Knows no sockets. A connection calls {@link #encode} once, {@link #decode} until it returns
 * true, then {@link #finish}. A request is its own stage, so that asking costs one object.
 *
 * @param <R> type of the answer
 */
public abstract class Operation<R extends @Nullable Object> extends CompletableFuture<R> {
    /** When the caller stops waiting, by {@link System#nanoTime}; 0 before it is submitted. */
    public long deadline_ns;

    /** When the caller asked, by {@link System#nanoTime}; 0 if nobody measures. */
    public long start_ns;

    /** Who waits in a lane; set before the operation is queued there. */
    public volatile @Nullable Thread waiter;

    private static final AtomicIntegerFieldUpdater<Operation<?>> ROLE = roleUpdater();
    private static final int WAITS = 0;
    private static final int LEADS = 1;
    private static final int GONE = 2;

    private volatile int role;
    private @Nullable CacheException failure;
    private boolean repeated;

    /** Makes its waiter read the lane's socket from now on; false if the waiter has gone. */
    public final boolean promote() {
        return ROLE.compareAndSet(this, WAITS, LEADS);
    }

    /** Whether its waiter has to read the lane's socket. */
    public final boolean leads() {
        return role == LEADS;
    }

    /** Lets the waiter go; false if it has been promoted meanwhile. */
    public final boolean leave() {
        return ROLE.compareAndSet(this, WAITS, GONE);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static AtomicIntegerFieldUpdater<Operation<?>> roleUpdater() {
        return (AtomicIntegerFieldUpdater)
                AtomicIntegerFieldUpdater.newUpdater(Operation.class, "role");
    }

    /** About how many bytes the request has. */
    public int size() {
        return 64;
    }

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

    /** Whether it may be sent again after its connection broke; true once, and only for reads. */
    public final boolean mayRepeat() {
        if (repeated || !isRepeatable() || isDone()) {
            return false;
        }
        repeated = true;
        failure = null;
        return true;
    }

    /** Whether the reply said that there is no such item. */
    public boolean isMiss() {
        return false;
    }

    /** Completes with the answer, or with what the server refused. */
    public final void finish() {
        CacheException refused = failure;
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

    /** Wakes whoever waits in a lane. */
    public final void wake() {
        Thread thread = waiter;
        if (thread != null) {
            LockSupport.unpark(thread);
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
        failure = new CacheException.Refused(shown(line));
        return true;
    }

    private static String shown(String line) {
        return line.length() > 120 ? line.substring(0, 120) + "..." : line;
    }
}
