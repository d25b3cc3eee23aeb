package cellar.client.coherence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cellar.client.coherence.EtcdLocalCacheChecker.Fault;
import cellar.client.testing.EtcdNodes;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Local caches over a cluster in etcd with all faults. The same check must detect clients that
 * receive nothing about moved slots.
 *
 * <p>Runs until each fault was injected once, or for {@code -Dcellar.check.seconds} seconds.
 */
@Tag("deep")
class EtcdLocalCacheCheckTest {
    private static final long SECONDS = Long.getLong("cellar.check.seconds", 1);
    private static final long SEED = Long.getLong("cellar.check.seed", 1);

    /** Copies are returned for two seconds after the last answered request. */
    private static final Duration BOUND = Duration.ofSeconds(3);

    /** Enough while connections work: the map is read once a second. */
    private static final Duration TIGHT = Duration.ofMillis(1500);

    private static final Duration PATIENCE = Duration.ofMinutes(1);

    @BeforeEach
    void needsEtcd() {
        assumeTrue(EtcdNodes.isInstalled(), "there is no etcd here; .ci/install installs it");
    }

    @Test
    void nothingOldIsReadWhateverFails() throws Exception {
        Set<Fault> faults = EnumSet.allOf(Fault.class);
        try (EtcdLocalCacheChecker checker =
                new EtcdLocalCacheChecker(faults, BOUND, false, SEED)) {
            checker.run(Duration.ofSeconds(SECONDS), false);
            System.out.println(checker);
            assertEquals(0, checker.found(), checker::toString);
            assertTrue(checker.judged() > CoherenceChecker.READS_MIN, checker::toString);
            assertTrue(checker.hadEach(), checker::toString);
        }
    }

    @Test
    void clientsThatHearNothingOfMovedSlotsAreFoundOut() throws Exception {
        Set<Fault> faults = EnumSet.of(Fault.MOVE);
        try (EtcdLocalCacheChecker checker = new EtcdLocalCacheChecker(faults, TIGHT, true, SEED)) {
            checker.run(PATIENCE, true);
            System.out.println("broken on purpose, " + checker);
            assertTrue(checker.found() > 0, checker::toString);
        }
    }
}
