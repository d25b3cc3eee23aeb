package cellar.client.internal.net;

import cellar.client.CacheException;
import cellar.client.internal.wire.Operation;

/** An operation on its way over a connection. */
class Call {
    private final Operation<?> operation;
    private final long deadline_ns;
    private boolean repeated;

    /** Is to be answered before {@link System#nanoTime} says {@code deadline_ns}. */
    Call(Operation<?> operation, long deadline_ns) {
        this.operation = operation;
        this.deadline_ns = deadline_ns;
    }

    final Operation<?> operation() {
        return operation;
    }

    /** By when it is to be answered. */
    final long deadline_ns() {
        return deadline_ns;
    }

    /** Whether nobody waits for the answer any more. */
    final boolean isLate(long now_ns) {
        return deadline_ns - now_ns <= 0;
    }

    /** Whether there is an answer, or a failure. */
    final boolean isDone() {
        return operation.isDone();
    }

    /** Ends without an answer. */
    final void fail(CacheException failure) {
        operation.completeExceptionally(failure);
    }

    /** Whether it may be sent again after its connection broke; true once, and only for reads. */
    final boolean mayRepeat() {
        if (repeated || !operation.isRepeatable() || isDone()) {
            return false;
        }
        repeated = true;
        return true;
    }
}
