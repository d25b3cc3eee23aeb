package cellar.client.replication;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.replication.Checker.Fault;
import cellar.client.replication.Checker.Plan;
import cellar.client.testing.Server;
import java.util.EnumSet;
import org.junit.jupiter.api.Test;

/**
 * Several clients on real servers that die, hang, move and are cut off.
 *
 * <p>{@link Checker#main} runs for longer.
 */
class ReplicationCheckTest {
    private static final int SECONDS = Integer.getInteger("cellar.check.seconds", 12);

    private static void check(Server.Kind kind, int nodes, int clients, long seed)
            throws Exception {
        Plan plan = new Plan(kind, nodes, clients, SECONDS, seed, EnumSet.allOf(Fault.class));
        History.Faults faults = Checker.run(plan);
        assertTrue(faults.reads.get() > 100, faults::toString);
        assertEquals(0, faults.sum(), faults::toString);
    }

    @Test
    void twoClientsOnThreeNodesOfMemcached() throws Exception {
        check(Server.Kind.MEMCACHED, 3, 2, 1);
    }

    @Test
    void fourClientsOnFiveNodesOfMemcached() throws Exception {
        check(Server.Kind.MEMCACHED, 5, 4, 2);
    }

    @Test
    void fourClientsOnThreeNodesOfCellar() throws Exception {
        check(Server.Kind.CELLAR, 3, 4, 3);
    }
}
