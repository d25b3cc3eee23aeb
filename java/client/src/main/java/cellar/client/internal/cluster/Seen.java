package cellar.client.internal.cluster;

/** What the polls of one node have told. Belongs to {@link Watch}'s lock. */
final class Seen {
    static final long NEVER_MS = Long.MIN_VALUE / 2;

    private boolean polling;
    private boolean answers;
    private int missing;
    private int unclaimed;
    private int polls;
    private long heard_ms = NEVER_MS;
    private long answeredLast_ms = NEVER_MS;
    private long answersSince_ms = NEVER_MS;
    private long silentSince_ms = NEVER_MS;
    private long blamedFrom_ms;
    private boolean excused;

    /** A poll begins; false if one is under way. */
    boolean begin() {
        if (polling) {
            return false;
        }
        polling = true;
        return true;
    }

    /** The poll that began then had an answer. */
    void answered(long now_ms, long begun_ms) {
        polling = false;
        if (isSilent()) {
            answersSince_ms = now_ms;
        }
        answers = true;
        polls++;
        answeredLast_ms = begun_ms;
        silentSince_ms = NEVER_MS;
    }

    /** The poll had none; {@code excused} if that was no failure of the node. */
    void unanswered(long now_ms, boolean excused) {
        polling = false;
        this.excused = excused;
        if (!isSilent()) {
            silentSince_ms = now_ms;
            blamedFrom_ms = Long.MAX_VALUE;
        }
        answers = false;
    }

    /**
     * If the node is still silent when others answer what they are asked from then on, that is its
     * own fault.
     */
    void blamed(long from_ms) {
        blamedFrom_ms = Math.min(blamedFrom_ms, from_ms);
    }

    /** When it was last asked something that it answered. */
    long answeredLast_ms() {
        return answeredLast_ms;
    }

    /** Since when every poll has had an answer, if any has had none. */
    long answersSince_ms() {
        return answersSince_ms;
    }

    /** Since when no poll has had an answer; {@link #NEVER_MS} if the last one had. */
    long silentSince_ms() {
        return silentSince_ms;
    }

    /** Whether the last poll failed, and not because the node did. */
    boolean isExcused() {
        return isSilent() && excused;
    }

    /** See {@link #blamed}; without end as long as nothing says whose fault it is. */
    long blamedFrom_ms() {
        return blamedFrom_ms;
    }

    /** Whether the last poll had an answer. */
    boolean answers() {
        return answers;
    }

    /** Whether the last poll had none. */
    boolean isSilent() {
        return silentSince_ms != NEVER_MS;
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
