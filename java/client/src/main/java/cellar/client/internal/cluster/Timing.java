package cellar.client.internal.cluster;

import java.time.Duration;

/**
 * How long things take at most, in milliseconds.
 *
 * @param poll how often each node is asked for the view
 * @param lease how long a view may be acted on after it was asked for
 * @param skipped how much longer ago one node of three or more may have answered
 * @param pause how long nobody writes to a new home; more than {@code lease}
 * @param settle how long a node that answers again may be at what it was asked before
 * @param again how long a node that has not answered in time is asked again while others answer
 * @param doubt how long several nodes have to be silent at once while another answers
 * @param giveUp when the last node that had everything is not waited for any more
 * @param fillMax how long a filling may take; less than traces of removals stay
 */
record Timing(
        long poll,
        long lease,
        long skipped,
        long pause,
        long settle,
        long again,
        long doubt,
        long giveUp,
        long fillMax) {
    static final Timing USUAL =
            new Timing(
                    100,
                    400,
                    10_000,
                    600,
                    200,
                    200,
                    1500,
                    3000,
                    Duration.ofSeconds(Item.GONE_S / 2).toMillis());
}
