package cellar.client.internal.cluster;

import cellar.client.internal.wire.Operation;

/**
 * What has to happen on the other copies of an item.
 *
 * @param replaces whether changes that still wait for the same key are thereby done
 * @param operation makes the request, once for each node
 */
public record Change(boolean replaces, java.util.function.Supplier<Operation<?>> operation) {}
