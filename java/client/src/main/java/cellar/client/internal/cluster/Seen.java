package cellar.client.internal.cluster;

/** What the polls of one node have told. Belongs to {@link Watch}'s lock. */
final class Seen {
    private static final long NEVER_MS = Long.MIN_VALUE / 2;

    private boolean polling;
    private boolean answers;
    private int missing;
    private int unclaimed;
    private int polls;
    private long heard_ms = NEVER_MS;
    private long silentSince_ms;

    /** A poll begins; false if one is under way. */
    boolean begin() {
        if (polling) {
            return false;
        }
        polling = true;
        return true;
    }

    /** The poll had an answer. */
    void answered() {
        polling = false;
        answers = true;
        polls++;
    }

    /** The poll had none. */
    void unanswered(long now_ms) {
        polling = false;
        if (answers || silentSince_ms == 0) {
            silentSince_ms = now_ms;
        }
        answers = false;
    }

    /** Whether the last poll had an answer. */
    boolean answers() {
        return answers;
    }

    /** Whether polls have had no answer for longer than this. */
    boolean isSilent(long now_ms, long silence_ms) {
        return isSilent() && now_ms - silentSince_ms > silence_ms;
    }

    private boolean isSilent() {
        return !answers && silentSince_ms != 0;
    }

    /** Whether this is one of every so many answers. */
    boolean isTurn(int every) {
        return polls % every == 0;
    }

    /** The node has the view. */
    void viewFound() {
        missing = 0;
    }

    /** The node has no view; counted until it has, but not while the client gives it one. */
    void viewMissed() {
        missing++;
    }

    /** From now until {@link #viewFound} the client gives the node the view. */
    void viewGiven() {
        missing = Integer.MIN_VALUE;
    }

    /** Whether the client gives it the view. */
    boolean isBeingGiven() {
        return missing < 0;
    }

    /** Whether so many answers in a row were without the view. */
    boolean lacksView(int times) {
        return missing >= times;
    }

    /** Whether it surely has no view: so many answers have said that, or there is none. */
    boolean isBlank(int times) {
        return lacksView(times) || isSilent();
    }

    /** The node has told its view after it was asked at {@code begun_ms}. */
    void heard(long begun_ms) {
        heard_ms = Math.max(heard_ms, begun_ms);
    }

    /** When it was last asked for the view that it told. */
    long heard_ms() {
        return heard_ms;
    }

    /** Whether it has never told a view. */
    boolean isUnheard() {
        return heard_ms == NEVER_MS;
    }

    /** Whoever fills the node is at it. */
    void claimed() {
        unclaimed = 0;
    }

    /** The claim of whoever fills it was not there; true if it was not so many times in a row. */
    boolean claimMissed(int times) {
        unclaimed++;
        return unclaimed >= times;
    }
}
