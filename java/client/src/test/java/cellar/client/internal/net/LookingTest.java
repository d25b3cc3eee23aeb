package cellar.client.internal.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import org.junit.jupiter.api.Test;

/** The faster way to wait is found, and found again when it has changed. */
class LookingTest {
    /** How many of {@code reads} looked, if one that looks takes so long and one that sleeps so. */
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
        int tried = looked(looking, Looking.KEPT, 9_500, 10_000);
        assertEquals(Looking.LOOKING, tried);
        assertFalse(looking.isOn());
    }

    @Test
    void aChangeIsNoticed() {
        Looking looking = new Looking();
        looked(looking, Looking.KEPT, 5_000, 10_000);
        int tried = looked(looking, Looking.KEPT, 50_000, 10_000);
        assertEquals(Looking.LOOKING, tried);
    }

    @Test
    void aReadThatSomethingElseHeldUpDecidesNothing() {
        Looking looking = new Looking();
        looked(looking, Looking.SLEEPING - 1, 0, 10_000);
        looking.took(1_000_000_000);
        int looks = Looking.KEPT - Looking.SLEEPING;
        assertEquals(Looking.LOOKING, looked(looking, looks, 15_000, 10_000));
    }

    @Test
    void lookingEndsEarlyWhereItIsHeldUp() {
        Looking looking = new Looking();
        looked(looking, Looking.SLEEPING + Looking.LOOKING, 5_000, 10_000);
        assertEquals(1000, looked(looking, 1000, 5_000, 10_000));
        assertEquals(Looking.HELD_UP_MAX, looked(looking, 10_000, 3_000_000, 10_000));
    }
}
