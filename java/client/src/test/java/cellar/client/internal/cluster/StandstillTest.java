package cellar.client.internal.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.cluster.View.State;
import cellar.client.internal.wire.Mark.Kind;
import cellar.client.internal.wire.ReadOperation;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;

/** A client that is paused, and resumes with an outdated state. */
class StandstillTest {
    private static final Timing TIMING = new Timing(40, 80, 400, 100, 10, 20, 150, 400, 60_000);
    private static final long TIMEOUT_MS = 25;
    private static final long SEEDS = 20;
    private static final long STEPS_MAX = 20_000;

    /** Longer than the claim on a node lasts. */
    private static final long STILL_MS = 8_000;

    private static World world(long seed, int servers) {
        World world = new World(seed, servers, 2, TIMING, TIMEOUT_MS, Set.of());
        until(world, world::isWhole);
        return world;
    }

    private static void until(World world, BooleanSupplier done) {
        for (int i = 0; i < STEPS_MAX && !done.getAsBoolean(); i++) {
            world.run(1);
        }
        assertTrue(done.getAsBoolean());
    }

    private static void set(World world, World.Client client, String key, String value) {
        Item item = Item.of(Kind.VALUE, value.getBytes(StandardCharsets.US_ASCII), 0, 3600);
        CompletableFuture<Boolean> done =
                client.changes.make(World.bytes(key), new Edit.Put<>(item, true));
        until(world, done::isDone);
        assertTrue(done.join());
    }

    private static View view(World.Client client) {
        return client.watch.homes().view();
    }

    @Test
    void aClientThatIsAboutToEmptyANodeFindsThatAnotherHasFilledIt() {
        for (long seed = 0; seed < SEEDS; seed++) {
            World world = world(seed, 3);
            World.Client first = world.clients.get(0);
            World.Client second = world.clients.get(1);
            World.Server server = world.servers.get(2);
            set(world, first, "k", "v");
            server.kill();
            until(world, () -> view(first).state("s2") == State.OUT);
            server.restart();
            until(world, () -> fills(first) || fills(second));
            World.Client filler = fills(first) ? first : second;
            World.Client other = fills(first) ? second : first;
            until(world, () -> view(other).isRequested("s2"));
            // By then all nodes have the view, and the client waits for the pause.
            world.run(TIMING.pause() / 3);
            filler.standStill(STILL_MS);
            until(world, other::isWhole);
            int number = view(other).number();
            until(world, () -> !filler.isStill());
            world.run(TIMING.pause());
            assertEquals("v", server.live("k"), "seed " + seed);
            until(world, world::isWhole);
            assertEquals(number, view(other).number(), "seed " + seed);
        }
    }

    private static boolean fills(World.Client client) {
        return view(client).isRequested("s2") && client.watch.replica("s2").filling() != null;
    }

    private static boolean isIdle(Replica node) {
        return node.seen().answers() && node.filling() == null;
    }

    @Test
    void aClientThatHeardNobodyDoesNotReplaceTheLastNode() {
        for (long seed = 0; seed < SEEDS; seed++) {
            World world = world(seed, 2);
            World.Client client = world.clients.get(0);
            set(world, client, "k", "v");
            until(world, client::isIdle);
            world.servers.get(1).kill();
            until(world, () -> view(client).state("s1") == State.OUT);
            Replica last = client.watch.replica("s0");
            Replica other = client.watch.replica("s1");
            world.servers.get(1).restart();
            client.cut.add("s0");
            until(world, () -> last.seen().isSilent() && isIdle(other));
            client.standStill(2 * TIMING.giveUp());
            client.cut.clear();
            until(world, () -> !client.isStill());
            world.run(2 * TIMING.giveUp());
            until(world, world::isWhole);
            for (World.Server server : world.servers) {
                assertEquals("v", server.live("k"), "seed " + seed);
            }
        }
    }

    @Test
    void aClientThatFillsANodeFindsThatAnotherHasBeenStartedAgain() {
        for (long seed = 0; seed < SEEDS; seed++) {
            World world = world(seed, 3);
            World.Client first = world.clients.get(0);
            set(world, first, "k", "v");
            until(world, first::isIdle);
            world.servers.get(2).kill();
            until(world, () -> view(first).state("s2") == State.OUT);
            String name = first.watch.homes().home(Homes.hash(World.bytes("k"))).name();
            World.Server home =
                    world.servers.stream().filter(s -> s.name.equals(name)).toList().get(0);
            world.servers.get(2).restart();
            until(world, () -> world.clients.stream().anyMatch(c -> isFilling(c)));
            // By then all nodes have the view, and the filling client waits for the pause.
            world.run(TIMING.pause() / 2);
            world.clients.forEach(client -> client.standStill(TIMING.pause()));
            home.kill();
            home.restart();
            until(world, () -> world.clients.stream().noneMatch(World.Client::isStill));
            until(world, world::isWhole);
            for (World.Server server : world.servers) {
                assertEquals("v", server.live("k"), "seed " + seed);
            }
        }
    }

    private static boolean isFilling(World.Client client) {
        return view(client).state("s2") == State.FILLING;
    }

    @Test
    void aMissThatIsFoundAfterAStandstillIsReadAgain() {
        World world = world(1, 3);
        World.Client client = world.clients.get(0);
        assertFalse(missed(client).mayHaveMissed());
        Reading<Boolean> before = missed(client);
        client.standStill(STILL_MS);
        until(world, () -> client.isStill() && !client.watch.isFresh());
        assertTrue(before.mayHaveMissed());
        until(world, () -> !client.isStill() && client.watch.isFresh());
        // Nothing has changed, so the home was not emptied and the read was correct.
        assertFalse(before.mayHaveMissed());
    }

    @Test
    void aMissAtANodeThatWasFilledAnewIsReadAgain() {
        World world = world(1, 3);
        World.Client client = world.clients.get(0);
        // Sent now, and answered by the process that is started meanwhile.
        Reading<Boolean> before = missed(client, false);
        String home = before.asked().name();
        World.Server server =
                world.servers.stream().filter(s -> s.name.equals(home)).toList().get(0);
        server.kill();
        until(world, () -> view(client).state(home) == State.OUT);
        server.restart();
        until(world, world::isWhole);
        miss(before);
        assertTrue(client.watch.isFresh());
        assertTrue(before.mayHaveMissed());
    }

    private static Reading<Boolean> missed(World.Client client) {
        return missed(client, true);
    }

    private static Reading<Boolean> missed(World.Client client, boolean now) {
        byte[] key = World.bytes("k");
        Homes homes = client.watch.homes();
        Replica home = homes.home(Homes.hash(key));
        Reading<Boolean> reading =
                new Reading<>(
                        client.watch,
                        key,
                        homes,
                        home,
                        () -> new ReadOperation<>(key, 0, ReadOperation::hit));
        if (now) {
            miss(reading);
        }
        return reading;
    }

    /** Every node that is asked answers with a miss. */
    private static void miss(Reading<Boolean> reading) {
        do {
            reading.request().complete(false);
        } while (reading.goesOn());
    }
}
