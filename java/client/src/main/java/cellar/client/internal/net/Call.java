package cellar.client.internal.net;

import cellar.client.CacheException;
import cellar.client.internal.wire.Operation;

/** An operation in progress on a connection. */
class Call {
    private final Operation<?> operation;
    private final long deadline_ns;
    private boolean repeated;

    /** Must be answered before {@link System#nanoTime} reaches {@code deadline_ns}. */
    Call(Operation<?> operation, long deadline_ns) {
        this.operation = operation;
        this.deadline_ns = deadline_ns;
    }

    final Operation<?> operation() {
        return operation;
    }

    /** Returns when it must be answered. */
    final long deadline_ns() {
        return deadline_ns;
    }

    /** Whether its deadline has passed. */
    final boolean isLate(long now_ns) {
        return deadline_ns - now_ns <= 0;
    }

    /** Whether it has an answer or has failed. */
    final boolean isDone() {
        return operation.isDone();
    }

    /** Fails it. */
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
