package cellar.client.internal.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.cluster.View.State;
import cellar.client.internal.wire.Mark.Kind;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Clients that list different nodes (rules 19 to 22 of docs/java-replication.md). */
class NodeListTest {
    private static final Timing TIMING = new Timing(40, 80, 400, 100, 10, 20, 150, 400, 60_000);
    private static final long TIMEOUT_MS = 25;
    private static final int STEPS_MAX = 2000;

    private final World world = new World(1, 4, 0, TIMING, TIMEOUT_MS, Set.of());

    private World.Client start(String name, int... servers) {
        List<World.Server> list = Arrays.stream(servers).mapToObj(world.servers::get).toList();
        World.Client client = world.add(name, list);
        client.start();
        return client;
    }

    private void until(BooleanSupplier done) {
        for (int i = 0; i < STEPS_MAX && !done.getAsBoolean(); i++) {
            world.run(5);
        }
        assertTrue(done.getAsBoolean());
    }

    private void set(World.Client client, String key, String value) {
        Item item = Item.of(Kind.VALUE, value.getBytes(StandardCharsets.US_ASCII), 0, 3600);
        CompletableFuture<Boolean> done =
                client.changes.make(World.bytes(key), new Edit.Put<>(item, true));
        until(done::isDone);
        assertTrue(done.join());
    }

    private @Nullable String get(World.Client client, String key) {
        CompletableFuture<@Nullable String> value = client.get(key);
        until(value::isDone);
        return value.join();
    }

    private static List<String> in(World.Client client) {
        return client.watch.homes().view().nodes(State.IN);
    }

    @Test
    void theOldListAndTheNewTogetherUseTheNodesOfBothUntilTheLastOldClientEnds() {
        World.Client before = start("old", 0, 1);
        until(before::isWhole);
        set(before, "k", "1");
        until(before::isIdle);
        World.Client after = start("new", 0, 2);
        for (int i = 2; i < 40; i += 2) {
            set(before, "k", "" + i);
            assertEquals("" + i, get(after, "k"));
            set(after, "k", "" + (i + 1));
            assertEquals("" + (i + 1), get(before, "k"));
            world.run(100);
            assertEquals(List.of("s0"), in(before));
            assertEquals(List.of("s0"), in(after));
        }
        before.close(() -> {});
        until(after::isWhole);
        assertEquals(List.of("s0", "s2"), in(after));
        until(after::isIdle);
        assertEquals(world.servers.get(0).live("k"), world.servers.get(2).live("k"));
    }

    @Test
    void aRemovedNodeThatComesBackToTheListBringsNothingAlong() {
        World.Client first = start("first", 0, 1, 2);
        until(first::isWhole);
        set(first, "k", "old");
        until(first::isIdle);
        first.close(() -> {});
        World.Client second = start("second", 0, 1);
        until(second::isWhole);
        set(second, "k", "new");
        until(second::isIdle);
        assertEquals("old", world.servers.get(2).live("k"));
        second.close(() -> {});
        World.Client third = start("third", 0, 1, 2);
        until(third::isWhole);
        world.servers.forEach(
                server -> assertEquals(server.name.equals("s3") ? null : "new", server.live("k")));
    }

    @Test
    void whereOnlyNodesOutsideTheListHaveEverythingItGoesOnWithoutThem() {
        World.Client before = start("old", 0, 1, 2);
        until(before::isWhole);
        before.watch.lost(before.watch.replica("s2"), "it is to be filled");
        world.servers.get(2).freeze();
        world.run(TIMING.pause());
        World.Server frozen = world.servers.get(2);
        before.close(() -> {});
        world.run(TIMING.pause());
        frozen.thaw();
        // As the last client that used it left it: out, with the view that says so.
        View view = before.watch.homes().view();
        World.put(frozen, Watch.VIEW_KEY, Publisher.held(view));
        World.Client after = start("new", 2, 3);
        until(after::isWhole);
        assertEquals(List.of("s2", "s3"), in(after));
        set(after, "k", "1");
        assertEquals("1", get(after, "k"));
    }
}
