package cellar.client.replication;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.replication.Checker.Fault;
import cellar.client.replication.Checker.Plan;
import cellar.client.testing.Server;
import java.util.EnumSet;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Several clients with real servers that crash, freeze, move and are cut off. The same check must
 * detect clients that are broken on purpose.
 *
 * <p>Each run with correct clients takes {@code -Dcellar.check.seconds} seconds. They wait for
 * servers most of the time, so they run side by side.
 */
@Tag("deep")
class ReplicationCheckTest {
    private static final int SECONDS = Integer.getInteger("cellar.check.seconds", 20);

    /** Limit for a broken client; on a busy machine it takes longer until it shows its error. */
    private static final int PATIENCE_S = 120;

    private static void check(Server.Kind kind, int nodes, int clients, long seed)
            throws Exception {
        Plan plan = new Plan(kind, nodes, clients, SECONDS, seed);
        History.Faults faults = Checker.run(plan);
        assertTrue(faults.reads.get() > 100, faults::toString);
        assertEquals(0, faults.sum(), faults::toString);
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void twoClientsOnThreeNodesOfMemcached() throws Exception {
        check(Server.Kind.MEMCACHED, 3, 2, 1);
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void fourClientsOnFiveNodesOfMemcached() throws Exception {
        check(Server.Kind.MEMCACHED, 5, 4, 2);
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void fourClientsOnThreeNodesOfCellar() throws Exception {
        check(Server.Kind.CELLAR, 3, 4, 3);
    }

    /**
     * The rules whose breaking shows within seconds; the model and {@link Checker#main} test the
     * others.
     */
    @ParameterizedTest
    @Execution(ExecutionMode.CONCURRENT)
    @ResourceLock("broken clients")
    @EnumSource(names = {"TRACES", "ORDER"})
    void aBrokenRuleIsFoundOut(Broken broken) throws Exception {
        EnumSet<Fault> kills = EnumSet.of(Fault.KILL);
        Plan plan = new Plan(Server.Kind.MEMCACHED, 3, 3, PATIENCE_S, 4, kills, broken);
        History.Faults faults = Checker.run(plan);
        assertTrue(faults.sum() > 0, faults::toString);
    }
}
