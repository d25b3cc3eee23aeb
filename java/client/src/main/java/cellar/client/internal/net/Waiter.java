package cellar.client.internal.net;

import cellar.client.internal.wire.Operation;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.concurrent.locks.LockSupport;

/** A call whose caller waits in a {@link Lane}, until it is answered or has to lead. */
final class Waiter extends Call {
    private static final AtomicIntegerFieldUpdater<Waiter> ROLE =
            AtomicIntegerFieldUpdater.newUpdater(Waiter.class, "role");
    private static final int WAITS = 0;
    private static final int LEADS = 1;
    private static final int GONE = 2;

    private final Thread thread = Thread.currentThread();
    private volatile int role;

    /** Written before it looks once more whether it has to sleep, read after it need not. */
    private volatile boolean sleeps;

    /** The calling thread is the one that waits. */
    Waiter(Operation<?> operation, long deadline_ns) {
        super(operation, deadline_ns);
    }

    /** Makes it read the lane's socket from now on; false if it has gone. */
    boolean promote() {
        return ROLE.compareAndSet(this, WAITS, LEADS);
    }

    /** Whether it has to read the lane's socket. */
    boolean leads() {
        return role == LEADS;
    }

    /** Lets it go; false if it has been promoted meanwhile. */
    boolean leave() {
        return ROLE.compareAndSet(this, WAITS, GONE);
    }

    /** Whether it is the calling thread that waits. */
    boolean isMine() {
        return thread == Thread.currentThread();
    }

    /** Whether it has neither an answer nor to lead. */
    boolean isOnlyWaiting() {
        return !isDone() && !leads();
    }

    /** Sleeps until it is woken, at most {@code nanos}. */
    void sleep(Object lane, long nanos) {
        sleeps = true;
        if (isOnlyWaiting()) {
            LockSupport.parkNanos(lane, nanos);
        }
        sleeps = false;
    }

    /** Ends its sleep; it is answered, or has to lead. */
    void wake() {
        if (sleeps) {
            LockSupport.unpark(thread);
        }
    }
}
