package cellar.client;

/** How {@link CacheClient#keys} lists. */
public enum Listing {
    /** What the servers list: keys that expired or changed meanwhile may be among them. */
    FAST,
    /** Each key listed is asked for once more; those that are gone are left out. */
    EXACT
}
