package cellar.client.coherence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Local caches over a cluster whose slots move, and whose nodes crash and freeze.
 *
 * <p>Takes seconds, or {@code -Dcellar.check.seconds} seconds.
 */
@Tag("deep")
class SlotLocalCacheCheckTest {
    private static final long SECONDS = Long.getLong("cellar.check.seconds", 10);
    private static final long SEED = Long.getLong("cellar.check.seed", 1);

    /** Copies are returned for two seconds after the last answer; the rest is for slow machines. */
    private static final Duration BOUND = Duration.ofSeconds(3);

    @Test
    void nothingOldIsReadWhileSlotsMove() throws Exception {
        try (SlotLocalCacheChecker checker = new SlotLocalCacheChecker(BOUND, SEED)) {
            checker.run(Duration.ofSeconds(SECONDS), false);
            System.out.println(checker);
            assertEquals(0, checker.found(), checker::toString);
            assertTrue(checker.judged() > CoherenceChecker.READS_MIN, checker::toString);
        }
    }
}
