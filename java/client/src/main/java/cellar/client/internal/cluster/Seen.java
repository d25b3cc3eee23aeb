package cellar.client.internal.cluster;

/** The results of the polls of one node. Guarded by {@link Watch}'s lock. */
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

    /** Starts a poll; false if one is in progress. */
    boolean begin() {
        if (polling) {
            return false;
        }
        polling = true;
        return true;
    }

    /** The poll that started at {@code begun_ms} was answered. */
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

    /** The poll was not answered; {@code excused} if that was not a failure of the node. */
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
     * If the node is still silent when others answer requests sent from this time on, the silence
     * is its own fault.
     */
    void blamed(long from_ms) {
        blamedFrom_ms = Math.min(blamedFrom_ms, from_ms);
    }

    /** Returns when the last answered poll was sent. */
    long answeredLast_ms() {
        return answeredLast_ms;
    }

    /** Returns since when every poll has been answered, if any was not. */
    long answersSince_ms() {
        return answersSince_ms;
    }

    /** Returns since when no poll has been answered; {@link #NEVER_MS} if the last one was. */
    long silentSince_ms() {
        return silentSince_ms;
    }

    /** Whether the last poll failed for a reason that is not the node's. */
    boolean isExcused() {
        return isSilent() && excused;
    }

    /** See {@link #blamed}; the maximum value until that is called. */
    long blamedFrom_ms() {
        return blamedFrom_ms;
    }

    /** Whether the last poll was answered. */
    boolean answers() {
        return answers;
    }

    /** Whether the last poll was not answered. */
    boolean isSilent() {
        return silentSince_ms != NEVER_MS;
    }

    /** Whether the number of answers is a multiple of {@code every}. */
    boolean isTurn(int every) {
        return polls % every == 0;
    }

    /** The node has the view. */
    void viewFound() {
        missing = 0;
    }

    /** The node has no view; counted until it has one, but not while the client stores it. */
    void viewMissed() {
        missing++;
    }

    /** The client stores the view on the node from now until {@link #viewFound}. */
    void viewGiven() {
        missing = Integer.MIN_VALUE;
    }

    /** Whether the client is storing the view on the node. */
    boolean isBeingGiven() {
        return missing < 0;
    }

    /** Whether at least {@code times} answers in a row had no view. */
    boolean lacksView(int times) {
        return missing >= times;
    }

    /** Whether at least {@code times} answers in a row had no view, or the node does not answer. */
    boolean isBlank(int times) {
        return lacksView(times) || isSilent();
    }

    /** The node sent its view in answer to a poll of {@code begun_ms}. */
    void heard(long begun_ms) {
        heard_ms = Math.max(heard_ms, begun_ms);
    }

    /** Returns when the last poll was sent that returned a view. */
    long heard_ms() {
        return heard_ms;
    }

    /** Whether it has never sent a view. */
    boolean isUnheard() {
        return heard_ms == NEVER_MS;
    }

    /** The claim of the client that fills the node was found. */
    void claimed() {
        unclaimed = 0;
    }

    /** The claim was not found; true if it was not found {@code times} times in a row. */
    boolean claimMissed(int times) {
        unclaimed++;
        return unclaimed >= times;
    }
}
