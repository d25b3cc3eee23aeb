package cellar.client.internal.cluster;

import java.time.Duration;

/**
 * Intervals and limits of the rules, in milliseconds.
 *
 * @param poll interval between requests for the view of each node
 * @param lease how long a view may be used after it was requested
 * @param skipped how much earlier one node of three or more may have answered
 * @param pause how long no client writes to a new home; more than {@code lease}
 * @param settle how long a node that answers again may take to execute earlier requests
 * @param again how long after a node's time-out the other nodes are asked again
 * @param doubt how long several nodes must be silent while another one answers
 * @param giveUp when the client stops waiting for the last node that had everything
 * @param fillMax limit for filling a node; less than the TTL of a tombstone
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
