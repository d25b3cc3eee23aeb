package cellar.client.internal.cluster;

import cellar.client.internal.wire.Operation;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A change of an item.
 *
 * @param key the item's key
 * @param operation what a node is asked that holds the only copy
 * @param edit what becomes of the item where there are several
 */
@SuppressWarnings("ArrayRecordComponent")
public record Request<R extends @Nullable Object>(
        byte[] key, Supplier<? extends Operation<R>> operation, Edit<R> edit) {}
