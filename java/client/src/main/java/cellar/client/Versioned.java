package cellar.client;

/**
 * A value with the number that {@link CacheClient#cas} compares.
 *
 * @param value the value, not null
 * @param version new after every change of the item
 * @param <V> type of the value
 */
public record Versioned<V>(V value, long version) {}
