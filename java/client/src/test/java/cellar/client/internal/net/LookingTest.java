package cellar.client.internal.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import org.junit.jupiter.api.Test;

/** The faster way to wait is chosen, and chosen again after it has changed. */
class LookingTest {
    /**
     * Returns how many of {@code reads} spun, if reads that spin and reads that sleep take these
     * times.
     */
    private static int looked(Looking looking, int reads, long looking_ns, long sleeping_ns) {
        int looked = 0;
        for (int i = 0; i < reads; i++) {
            boolean on = looking.isOn();
            looked += on ? 1 : 0;
            looking.took(on ? looking_ns : sleeping_ns);
        }
        return looked;
    }

    @Test
    void whatIsClearlyFasterIsKept() {
        int all = Looking.KEPT - Looking.SLEEPING;
        assertEquals(all, looked(new Looking(), Looking.KEPT, 5_000, 10_000));
    }

    @Test
    void whatIsHardlyFasterIsNotWorthAProcessor() {
        Looking looking = new Looking();
        int once = Looking.TRIAL + Looking.SLEPT_MIN;
        assertEquals(Looking.LOOKING, looked(looking, once, 9_500, 10_000));
        assertFalse(looking.isOn());
    }

    @Test
    void whatWasNotWorthItIsTriedAgainLessAndLessOften() {
        Looking looking = new Looking();
        for (int slept = Looking.SLEPT_MIN; slept < Looking.KEPT; slept *= 2) {
            int until = Looking.TRIAL + slept;
            assertEquals(Looking.LOOKING, looked(looking, until, 50_000, 10_000));
        }
        int until = Looking.TRIAL + Looking.KEPT;
        assertEquals(Looking.LOOKING, looked(looking, until, 50_000, 10_000));
        assertEquals(Looking.LOOKING, looked(looking, until, 50_000, 10_000));
    }

    @Test
    void aChangeIsNoticed() {
        Looking looking = new Looking();
        looked(looking, Looking.TRIAL + Looking.SLEPT_MIN, 50_000, 10_000);
        looked(looking, Looking.TRIAL + Looking.KEPT, 5_000, 10_000);
        int soon = Looking.TRIAL + Looking.SLEPT_MIN;
        assertEquals(Looking.LOOKING, looked(looking, soon, 50_000, 10_000));
    }

    @Test
    void aReadThatSomethingElseHeldUpDecidesNothing() {
        Looking looking = new Looking();
        looked(looking, Looking.SLEEPING - 1, 0, 10_000);
        looking.took(1_000_000_000);
        int looks = Looking.LOOKING + Looking.SLEPT_MIN;
        assertEquals(Looking.LOOKING, looked(looking, looks, 15_000, 10_000));
    }

    @Test
    void lookingEndsEarlyWhereItIsHeldUp() {
        Looking looking = new Looking();
        looked(looking, Looking.TRIAL, 5_000, 10_000);
        assertEquals(1000, looked(looking, 1000, 5_000, 10_000));
        assertEquals(Looking.HELD_UP_MAX, looked(looking, Looking.SLEPT_MIN, 3_000_000, 10_000));
    }
}
