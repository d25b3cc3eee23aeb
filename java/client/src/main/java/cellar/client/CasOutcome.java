package cellar.client;

/** What became of a {@link CacheClient#cas}. */
public enum CasOutcome {
    /** The version was still the same; the value is stored. */
    STORED,
    /** Somebody changed the item since; nothing was stored. */
    CHANGED,
    /** The item is gone; nothing was stored. */
    MISSING
}
