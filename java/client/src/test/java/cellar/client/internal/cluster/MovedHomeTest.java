package cellar.client.internal.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.cluster.View.State;
import cellar.client.internal.wire.Mark.Kind;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A key's home changes while a change or a copy is on its way. */
class MovedHomeTest {
    private static final byte[] KEY = World.bytes("k");
    private static final int VIEW = 4;

    private final World world = new World(1, 2, 1, Timing.USUAL, 25, Set.of());
    private final World.Client client = world.clients.get(0);
    private Replica home;
    private Replica before;
    private World.Server server;
    private World.Server serverBefore;

    @BeforeEach
    void start() {
        for (int i = 0; i < 1000 && !world.isWhole(); i++) {
            world.run(5);
        }
        Homes homes = client.watch.homes();
        home = homes.home(Homes.hash(KEY));
        before = homes.next(Homes.hash(KEY), home);
        server = server(home);
        serverBefore = server(before);
    }

    private World.Server server(Replica node) {
        return world.servers.stream().filter(s -> s.name.equals(node.name())).toList().get(0);
    }

    private static Item value(String text, int view) {
        return Item.of(Kind.VALUE, text.getBytes(StandardCharsets.US_ASCII), 0, 3600).in(view);
    }

    /** Delivers a copy from {@code before}, the home until then. */
    private void deliver(Item item) {
        Item copy = item.copied(client.watch.homes().numberOf(before), 7);
        CompletableFuture<?> done = client.watch.copier().deliver(home, KEY, copy);
        world.run(100);
        assertTrue(done.isDone() && !done.isCompletedExceptionally());
    }

    @Test
    void aCopyReplacesWhatAFillingBroughtToTheNewHome() {
        World.put(server, KEY, value("filled", VIEW));
        deliver(value("copy", VIEW));
        assertEquals("copy", server.live("k"));
    }

    @Test
    void theTraceOfARemovalReplacesWhatAFillingBroughtToTheNewHome() {
        World.put(server, KEY, value("filled", VIEW));
        deliver(Item.gone().in(VIEW));
        assertEquals(null, server.live("k"));
    }

    @Test
    void aCopyDoesNotReplaceWhatWasStoredAtTheNewHome() {
        World.put(server, KEY, value("stored", VIEW + 1));
        deliver(value("copy", VIEW));
        assertEquals("stored", server.live("k"));
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

    @Test
    void noCopyIsMadeFromANewHomeBeforeThePauseIsOver() {
        Watch watch = client.watch;
        World.put(serverBefore, KEY, value("new home", VIEW));
        watch.adopt(watch.homes().view().with(home.name(), State.OUT));
        CompletableFuture<Boolean> early = watch.copier().pull(home, KEY);
        world.run(100);
        assertTrue(early.isCompletedExceptionally());
        world.run(2 * Timing.USUAL.pause());
        CompletableFuture<Boolean> late = watch.copier().pull(home, KEY);
        world.run(100);
        assertTrue(late.join());
    }

    @Test
    void whatTheHomeLacksAsYetIsNotReplacedByWhatItHas() {
        World.put(server, KEY, value("earlier", VIEW).copied(1, 7));
        World.put(serverBefore, KEY, value("later", VIEW).copied(1, 8));
        CompletableFuture<Boolean> done = client.watch.copier().pull(before, KEY);
        world.run(100);
        assertTrue(done.join());
        assertEquals("later", serverBefore.live("k"));
    }
}
