package cellar.client.internal.cluster;

/** Former homes that other clients may still use for a while. Guarded by {@link Watch}'s lock. */
final class Superseded {
    private final Homes homes;
    private final Homes between;
    private long until_ms;
    private boolean told;

    /**
     * Creates them. Clients may use them until {@code until_ms}, and until all nodes have a later
     * view.
     *
     * @param between the homes of all views that others may have seen between these homes and the
     *     next
     */
    Superseded(Homes homes, Homes between, long until_ms) {
        this.homes = homes;
        this.between = between;
        this.until_ms = until_ms;
    }

    /** All nodes have a later view; all clients have it when their leases have ended. */
    void told(long leasesEnd_ms) {
        if (!told) {
            told = true;
            until_ms = Math.max(until_ms, leasesEnd_ms);
        }
    }

    /** Whether no client uses them any more. */
    boolean isOver(long now_ms) {
        return told && until_ms <= now_ms;
    }

    /** Returns for how long they may still be used, as far as that is known. */
    long left_ms(long now_ms) {
        return Math.max(until_ms - now_ms, told ? 0 : Watch.AGAIN_MS);
    }

    /** Returns how many nodes were in. */
    int count() {
        return homes.count();
    }

    /** Whether {@code node} was in. */
    boolean hadIn(Replica node) {
        return homes.isIn(node);
    }

    /** Returns until when they may be used; the maximum value until all nodes have a later view. */
    long until_ms() {
        return told ? until_ms : Long.MAX_VALUE;
    }

    /** Whether other clients may use a home of a key other than {@code home}. */
    boolean differs(Replica home, View now, long hash) {
        int number = homes.view().number(home.name());
        return homes.home(hash) != home
                || between.home(hash) != home
                || now.number(home.name()) != number;
    }
}
