package cellar.client.coherence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.coherence.ReplicatedLocalCacheChecker.Fault;
import cellar.client.coherence.ReplicatedLocalCacheChecker.Plan;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Local caches over replicated nodes under faults. The same check must detect clients that are
 * broken on purpose.
 *
 * <p>Each takes seconds, or {@code -Dcellar.check.seconds} seconds.
 */
@Tag("deep")
class ReplicatedLocalCacheCheckTest {
    private static final long SECONDS = Long.getLong("cellar.check.seconds", 8);
    private static final long SEED = Long.getLong("cellar.check.seed", 1);
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    /**
     * A value from the nodes is at most a second old for any client; the rest is for slow machines.
     */
    private static final Duration OWN = Duration.ofSeconds(3);

    /** Copies are returned for two more seconds after the last answer. */
    private static final Duration OTHERS = Duration.ofSeconds(5);

    private static final Duration TIGHT = Duration.ofSeconds(1);

    private static void assertNothingWrong(Plan plan) throws Exception {
        try (ReplicatedLocalCacheChecker checker = new ReplicatedLocalCacheChecker(plan, SEED)) {
            checker.run(Duration.ofSeconds(SECONDS), false);
            System.out.println(checker);
            assertEquals(0, checker.found(), checker::toString);
            assertTrue(checker.judged() > CoherenceChecker.READS_MIN, checker::toString);
        }
    }

    @Test
    void nothingOldIsReadWhateverBreaks() throws Exception {
        assertNothingWrong(new Plan(EnumSet.allOf(Fault.class), OWN, OTHERS, false));
    }

    @Test
    void ownChangesAreReadBackAtOnceWhileOthersChangeTheirs() throws Exception {
        assertNothingWrong(new Plan(Set.of(), Duration.ZERO, OTHERS, false));
    }

    @Test
    void clientsThatAreNotToldOfChangesAreFoundOut() throws Exception {
        Plan plan = new Plan(Set.of(), OWN, TIGHT, true);
        try (ReplicatedLocalCacheChecker checker = new ReplicatedLocalCacheChecker(plan, SEED)) {
            checker.run(PATIENCE, true);
            System.out.println("broken on purpose, " + checker);
            assertTrue(checker.found() > 0, checker::toString);
        }
    }
}
