package cellar.client.internal.cluster;

import cellar.client.internal.wire.Operation;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A change of an item.
 *
 * @param key of the item
 * @param operation creates the request to a node that has the only copy
 * @param edit the change to the item on replicated nodes
 */
@SuppressWarnings("ArrayRecordComponent")
public record Request<R extends @Nullable Object>(
        byte[] key, Supplier<? extends Operation<R>> operation, Edit<R> edit) {}
