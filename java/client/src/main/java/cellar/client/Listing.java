package cellar.client;

/** How {@link CacheClient#keys} lists. */
public enum Listing {
    /** As the servers list them: may include keys that have expired or changed meanwhile. */
    FAST,
    /** Reads each listed key again and leaves out those that do not exist any more. */
    EXACT
}
