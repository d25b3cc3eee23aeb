package cellar.client;

/** The outcome of {@link CacheClient#cas}. */
public enum CasOutcome {
    /** The version was unchanged; the value is stored. */
    STORED,
    /** The item has been changed; nothing was stored. */
    CHANGED,
    /** The item does not exist; nothing was stored. */
    MISSING
}
