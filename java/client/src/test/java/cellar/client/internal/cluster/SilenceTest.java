package cellar.client.internal.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.wire.Mark.Kind;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which silent node is at fault, and what happens to nodes and copies (rules 3 and 14). */
class SilenceTest {
    private static final Timing TIMING = new Timing(40, 80, 400, 100, 10, 20, 150, 400, 60_000);
    private static final long TIMEOUT_MS = 25;
    private static final int SEEDS = 200;

    private static World world(long seed, int servers, int clients) {
        World world = new World(seed, servers, clients, TIMING, TIMEOUT_MS, Set.of());
        settle(world);
        return world;
    }

    private static void settle(World world) {
        for (int i = 0; i < 2000 && !world.isWhole(); i++) {
            world.run(5);
        }
        assertTrue(world.isWhole());
    }

    private static View view(World.Client client) {
        return client.watch.homes().view();
    }

    private static void set(World.Client client, String key, String value) {
        Item item = Item.of(Kind.VALUE, value.getBytes(StandardCharsets.US_ASCII), 0, 3600);
        client.changes.make(World.bytes(key), new Edit.Put<>(item, true));
    }

    @Test
    @Tag("deep")
    void whoHearsNobodyForLongPutsNobodyOutAndDeliversWhatWaited() {
        for (long seed = 0; seed < SEEDS; seed++) {
            World world = world(seed, 2 + (int) (seed % 4), 2);
            World.Client alone = world.clients.get(0);
            int before = view(alone).number();
            set(alone, "k", "v");
            world.run(seed % 12);
            world.servers.forEach(server -> alone.cut.add(server.name));
            world.run(2 * TIMING.giveUp() + seed);
            alone.cut.clear();
            world.run(2 * TIMING.giveUp());
            for (World.Client client : world.clients) {
                assertEquals(before, view(client).number(), "seed " + seed);
            }
            String kept = world.servers.get(0).live("k");
            for (World.Server server : world.servers) {
                assertEquals(kept, server.live("k"), "seed " + seed);
            }
        }
    }

    @ParameterizedTest
    @Tag("deep")
    @ValueSource(booleans = {true, false})
    void severalNodesThatFailAtOnceAreOutAndComeBack(boolean killed) {
        for (long seed = 0; seed < SEEDS; seed++) {
            World world = world(seed, 5, 2);
            List<World.Server> failing = world.servers.subList(0, 3);
            failing.forEach(killed ? World.Server::kill : World.Server::freeze);
            world.run(TIMING.doubt() + TIMING.giveUp());
            for (World.Client client : world.clients) {
                assertEquals(
                        List.of("s3", "s4"), view(client).nodes(View.State.IN), "seed " + seed);
            }
            failing.forEach(killed ? World.Server::restart : World.Server::thaw);
            settle(world);
        }
    }

    @Test
    void nodesOfWhichNoneIsInBeginAgain() {
        World world = world(1, 3, 2);
        World.Client one = world.clients.get(0);
        World.Client other = world.clients.get(1);
        for (String name : List.of("s0", "s1")) {
            one.watch.lost(one.watch.replica(name), "the one is wrong");
        }
        other.watch.lost(other.watch.replica("s2"), "the other is wrong");
        for (int i = 0; i < 200 && !view(one).nodes(View.State.IN).isEmpty(); i++) {
            world.run(1);
        }
        assertEquals(List.of(), view(one).nodes(View.State.IN));
        settle(world);
        set(one, "k", "v");
        world.run(2 * TIMING.pause());
        world.servers.forEach(server -> assertEquals("v", server.live("k")));
    }

    @Test
    void aNodeThatAnswersAndTakesNoCopyIsOut() {
        World world = world(1, 3, 1);
        World.Client client = world.clients.get(0);
        Homes homes = client.watch.homes();
        Replica home = homes.home(Homes.hash(World.bytes("k")));
        World.Server full = world.servers.get(home.name().equals("s0") ? 1 : 0);
        full.swallow();
        set(client, "k", "v");
        world.run(TIMING.doubt() / 2);
        assertTrue(homes.isIn(client.watch.replica(full.name)));
        world.run(2 * TIMING.doubt());
        assertFalse(view(client).nodes(View.State.IN).contains(full.name));
    }

    @Test
    void whatIsNoFailureOfTheNodeBlamesNobody() {
        Silence silence = new Silence(TIMING);
        Seen node = new Seen();
        Seen other = new Seen();
        node.answered(0, 0);
        for (long now_ms = 0; now_ms < 10 * TIMING.giveUp(); now_ms += TIMING.poll()) {
            silence.asks(node, List.of(other), now_ms);
            node.unanswered(now_ms + 1, true);
            other.answered(now_ms + 2, now_ms);
            silence.answered(now_ms + 2);
            assertFalse(silence.isItsOwn(node, List.of(other)));
        }
        node.unanswered(20 * TIMING.giveUp(), false);
        assertTrue(silence.isItsOwn(node, List.of(other)));
    }
}
