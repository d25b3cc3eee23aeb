package cellar.client.internal.cluster;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.cluster.View.State;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A key's home moves while a change of it, or a copy, is on its way. */
class MovedHomeTest {
    private static final byte[] KEY = World.bytes("k");

    private final World world = new World(1, 2, 1, Timing.USUAL, 25, Set.of());
    private final World.Client client = world.clients.get(0);
    private Replica home;
    private Replica before;

    @BeforeEach
    void start() {
        for (int i = 0; i < 1000 && !world.isWhole(); i++) {
            world.run(5);
        }
        Homes homes = client.watch.homes();
        home = homes.home(Homes.hash(KEY));
        before = homes.next(Homes.hash(KEY), home);
    }

    @Test
    void aNodeHasNotStayedTheHomeIfAnotherWasTheHomeMeanwhile() {
        Watch watch = client.watch;
        long hash = Homes.hash(KEY);
        watch.adopt(watch.homes().view().with(home.name(), State.OUT));
        Homes out = watch.homes();
        assertTrue(watch.staysHome(before, out, hash));
        watch.adopt(watch.homes().view().with(home.name(), State.FILLING));
        assertTrue(watch.staysHome(before, out, hash));
        watch.adopt(watch.homes().view().with(home.name(), State.IN));
        watch.adopt(watch.homes().view().with(home.name(), State.OUT));
        assertFalse(watch.staysHome(before, out, hash));
    }
}
