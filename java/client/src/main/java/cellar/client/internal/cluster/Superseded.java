package cellar.client.internal.cluster;

/** Homes that other clients may still use for a while. Belongs to {@link Watch}'s lock. */
final class Superseded {
    private final Homes homes;
    private final Homes between;
    private long until_ms;
    private boolean told;

    /**
     * They may be used until then, and until all nodes know better.
     *
     * @param between those of all views that others may have seen between these homes and the next
     */
    Superseded(Homes homes, Homes between, long until_ms) {
        this.homes = homes;
        this.between = between;
        this.until_ms = until_ms;
    }

    /** All nodes know better, so all clients do when their leases have ended. */
    void told(long leasesEnd_ms) {
        if (!told) {
            told = true;
            until_ms = Math.max(until_ms, leasesEnd_ms);
        }
    }

    /** Whether nobody uses them any more. */
    boolean isOver(long now_ms) {
        return told && until_ms <= now_ms;
    }

    /** For how long they may still be used, as far as that is known. */
    long left_ms(long now_ms) {
        return Math.max(until_ms - now_ms, told ? 0 : Watch.AGAIN_MS);
    }

    /** How many nodes were in. */
    int count() {
        return homes.count();
    }

    /** Whether {@code node} was in. */
    boolean hadIn(Replica node) {
        return homes.isIn(node);
    }

    /** Until when they may be used; without end as long as not all nodes know better. */
    long until_ms() {
        return told ? until_ms : Long.MAX_VALUE;
    }

    /** Whether others may use another home of a key than {@code home}. */
    boolean differs(Replica home, View now, long hash) {
        int number = homes.view().number(home.name());
        return homes.home(hash) != home
                || between.home(hash) != home
                || now.number(home.name()) != number;
    }
}
