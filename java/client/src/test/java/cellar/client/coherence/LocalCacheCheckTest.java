package cellar.client.coherence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.coherence.LocalCacheChecker.Fault;
import cellar.client.coherence.LocalCacheChecker.Origin;
import cellar.client.coherence.LocalCacheChecker.Plan;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The local cache under faults, with each server that it supports. The same check must detect
 * clients that are broken on purpose.
 *
 * <p>Each takes seconds, or {@code -Dcellar.check.seconds} seconds.
 */
@Tag("deep")
class LocalCacheCheckTest {
    private static final long SECONDS = Long.getLong("cellar.check.seconds", 4);
    private static final long SEED = Long.getLong("cellar.check.seed", 1);
    private static final Duration HOUR = Duration.ofHours(1);

    /** Copies are returned for two seconds after the last answer; the rest is for slow machines. */
    private static final Duration BOUND = Duration.ofSeconds(3);

    private static final Duration TIGHT = Duration.ofSeconds(1);
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private static Duration localTtl(Origin origin) {
        return origin == Origin.MEMCACHED ? Duration.ofMillis(500) : HOUR;
    }

    @ParameterizedTest
    @EnumSource(Origin.class)
    void nothingOldIsReadWhateverBreaks(Origin origin) throws Exception {
        Set<Fault> faults = EnumSet.allOf(Fault.class);
        LongSupplier clock = System::nanoTime;
        Plan plan = new Plan(origin, faults, localTtl(origin), BOUND, clock, false);
        try (LocalCacheChecker checker = new LocalCacheChecker(plan, SEED)) {
            checker.run(Duration.ofSeconds(SECONDS), false);
            System.out.println(checker);
            assertEquals(0, checker.found(), checker::toString);
            assertTrue(checker.judged() > CoherenceChecker.READS_MIN, checker::toString);
        }
    }

    private static void assertFound(Plan plan) throws Exception {
        try (LocalCacheChecker checker = new LocalCacheChecker(plan, SEED)) {
            checker.run(PATIENCE, true);
            System.out.println("broken on purpose, " + checker);
            assertTrue(checker.found() > 0, checker::toString);
        }
    }

    @Test
    void aClientThatIsNotToldOfChangesIsFoundOut() throws Exception {
        assertFound(new Plan(Origin.CELLAR, Set.of(), HOUR, TIGHT, System::nanoTime, true));
    }

    @Test
    void aClientThatDoesNotNoticeSilenceIsFoundOut() throws Exception {
        long still_ns = System.nanoTime();
        Set<Fault> faults = Set.of(Fault.SILENCE);
        assertFound(new Plan(Origin.CELLAR, faults, HOUR, TIGHT, () -> still_ns, false));
    }

    @Test
    void aClientThatNeverConfirmsItsCopiesIsFoundOut() throws Exception {
        assertFound(new Plan(Origin.MEMCACHED, Set.of(), HOUR, TIGHT, System::nanoTime, false));
    }
}
