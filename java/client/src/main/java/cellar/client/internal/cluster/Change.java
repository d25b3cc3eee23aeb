package cellar.client.internal.cluster;

import cellar.client.internal.wire.Operation;
import java.util.function.Supplier;

/**
 * What has to happen on the other copies of an item.
 *
 * @param replaces whether changes that still wait for the same key are thereby done
 * @param removes whether the item is gone; then the caller waits until all copies are
 * @param operation makes the request, once for each node
 */
public record Change(boolean replaces, boolean removes, Supplier<Operation<?>> operation) {}
