package cellar.client.internal.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cellar.client.CacheMetrics;
import cellar.client.CasOutcome;
import cellar.client.internal.cluster.View.State;
import cellar.client.internal.wire.Mark.Kind;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Callers on their own threads while another thread learns that a key's home has changed (rule 6 of
 * docs/java-replication.md). The model cannot test this, because it has one thread.
 */
@Tag("deep")
class SettlingTest {
    private static final int ROUNDS = 1_000;
    private static final int CHANGES_MAX = 10_000;
    private static final byte[] KEY = "k".getBytes(StandardCharsets.US_ASCII);
    private static final Edit<Boolean> PUT =
            new Edit.Put<>(Item.of(Kind.VALUE, new byte[] {'v'}, 0, 3600), true);

    /** The clock stands still, so no pause ends. */
    private static final Ticks STILL =
            new Ticks() {
                @Override
                public long now_ms() {
                    return 1_000;
                }

                @Override
                public void later(long delay_ms, Runnable task) {}
            };

    /** A node that answers at once. */
    private static final class Node implements Peer {
        private final Map<String, Found> items = new HashMap<>();
        private long version;

        /** The number of values that were stored here as at their home. */
        final AtomicLong puts = new AtomicLong();

        @Override
        public synchronized CompletableFuture<Found> read(byte[] key) {
            return CompletableFuture.completedFuture(items.getOrDefault(name(key), Found.NOTHING));
        }

        @Override
        public CompletableFuture<Found> readOnly(byte[] key) {
            return read(key);
        }

        @Override
        public synchronized CompletableFuture<Stored> store(
                byte[] key, Item item, If condition, long expected) {
            if (condition == If.ANY) {
                puts.incrementAndGet();
            }
            version++;
            items.put(name(key), new Found(item, version, false));
            return CompletableFuture.completedFuture(new Stored(CasOutcome.STORED, version));
        }

        @Override
        public CompletableFuture<@Nullable Long> count(byte[] key, Edit.Count count) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<?> flush() {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Set<String>> keys() {
            throw new UnsupportedOperationException();
        }

        private static String name(byte[] key) {
            return new String(key, StandardCharsets.US_ASCII);
        }
    }

    /** One client of three nodes that are all in. */
    private static final class Client {
        final Map<String, Node> nodes = new HashMap<>();
        final Watch watch = new Watch("client", STILL, Timing.USUAL, () -> {});
        final Changes changes = new Changes(watch, 500);

        Client() {
            List<Replica> replicas = new ArrayList<>();
            View view = View.EMPTY;
            for (String name : List.of("a", "b", "c")) {
                view = view.with(name);
                Node node = new Node();
                nodes.put(name, node);
                Delivery delivery = new Delivery(watch, name, CacheMetrics.NONE, name);
                CopyQueue queue = new CopyQueue(1000, STILL, delivery);
                replicas.add(new Replica(name, node, node, queue, known -> {}));
            }
            for (Node node : nodes.values()) {
                node.store(Watch.VIEW_KEY, Publisher.held(view), Peer.If.ABSENT, 0);
            }
            watch.start(replicas);
        }

        String home() {
            return String.valueOf(watch.homes().home(Homes.hash(KEY)).name());
        }
    }

    /** Puts at the next home while this client's pause, which does not end, has just begun. */
    private static long putTooEarly() throws InterruptedException {
        Client client = new Client();
        String home = client.home();
        View next = client.watch.homes().view().with(home, State.OUT);
        AtomicBoolean moved = new AtomicBoolean();
        Thread caller =
                new Thread(
                        () -> {
                            for (int i = 0; i < CHANGES_MAX && !moved.get(); i++) {
                                client.changes.make(KEY, PUT);
                            }
                        });
        caller.start();
        while (client.nodes.get(home).puts.get() == 0) {
            Thread.yield();
        }
        client.watch.adopt(next);
        moved.set(true);
        caller.join();
        client.nodes.remove(home);
        return client.nodes.values().stream().mapToLong(node -> node.puts.get()).sum();
    }

    @Test
    void noCallerChangesAKeyAtItsNextHomeBeforeThePauseIsOver() throws Exception {
        for (int round = 0; round < ROUNDS; round++) {
            assertEquals(0, putTooEarly(), "in round " + round);
        }
    }
}
