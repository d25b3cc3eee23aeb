package cellar.client.internal.net;

import cellar.client.internal.wire.Operation;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.concurrent.locks.LockSupport;

/** A call whose caller waits in a {@link Lane} until it is answered or becomes the leader. */
final class Waiter extends Call {
    private static final AtomicIntegerFieldUpdater<Waiter> ROLE =
            AtomicIntegerFieldUpdater.newUpdater(Waiter.class, "role");
    private static final int WAITS = 0;
    private static final int LEADS = 1;
    private static final int GONE = 2;

    private final Thread thread = Thread.currentThread();
    private volatile int role;

    /** Set before the last check whether it must sleep; read by the thread that would wake it. */
    private volatile boolean sleeps;

    /** The calling thread is the one that waits. */
    Waiter(Operation<?> operation, long deadline_ns) {
        super(operation, deadline_ns);
    }

    /** Makes it the leader of the lane; false if it has left. */
    boolean promote() {
        return ROLE.compareAndSet(this, WAITS, LEADS);
    }

    /** Whether it is the leader of the lane. */
    boolean leads() {
        return role == LEADS;
    }

    /** Leaves the lane; false if it has been promoted meanwhile. */
    boolean leave() {
        return ROLE.compareAndSet(this, WAITS, GONE);
    }

    /** Whether the calling thread is the one that waits. */
    boolean isMine() {
        return thread == Thread.currentThread();
    }

    /** Whether it has no answer and is not the leader. */
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

    /** Wakes it, because it is answered or the leader. */
    void wake() {
        if (sleeps) {
            LockSupport.unpark(thread);
        }
    }
}
