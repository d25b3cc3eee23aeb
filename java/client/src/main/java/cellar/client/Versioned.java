package cellar.client;

/**
 * A value with its version, for {@link CacheClient#cas}.
 *
 * @param value the value, not null
 * @param version changes with every change of the item
 * @param <V> type of the value
 */
public record Versioned<V>(V value, long version) {}
