package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.cluster.View.State;
import cellar.client.internal.wire.Mark.Kind;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/** Stores this client's view on the nodes, and adopts from them what this client lacks. */
final class Publisher {
    private static final int PUSHES_MAX = 8;

    private final Watch watch;

    Publisher(Watch watch) {
        this.watch = watch;
    }

    /** Stores the view on all nodes that are not out. */
    CompletableFuture<?> publish() {
        List<CompletableFuture<?>> pushes = new ArrayList<>();
        for (Replica node : watch.replicas()) {
            if (watch.homes().view().state(node.name()) != State.OUT) {
                pushes.add(push(node, false));
            }
        }
        return CompletableFuture.allOf(pushes.toArray(CompletableFuture[]::new));
    }

    /** Stores the view on a node; if the node has no view, only with {@code create}. */
    CompletableFuture<@Nullable Void> push(Replica node, boolean create) {
        return push(node, create, 1);
    }

    private CompletableFuture<@Nullable Void> push(Replica node, boolean create, int attempt) {
        return node.copy()
                .read(Watch.VIEW_KEY)
                .thenCompose(
                        found -> {
                            Item item = found.item();
                            View there = item == null ? View.EMPTY : watch.read(item);
                            watch.adopt(there);
                            View view = watch.homes().view();
                            if (item == null && !create || view.equals(there)) {
                                return CompletableFuture.completedFuture(null);
                            }
                            return node.copy()
                                    .store(
                                            Watch.VIEW_KEY,
                                            held(view),
                                            item == null ? Peer.If.ABSENT : Peer.If.SAME,
                                            found.version())
                                    .thenCompose(
                                            stored ->
                                                    stored.done()
                                                            ? CompletableFuture.completedFuture(
                                                                    null)
                                                            : pushAgain(node, create, attempt));
                        });
    }

    private CompletableFuture<@Nullable Void> pushAgain(Replica node, boolean create, int attempt) {
        return attempt == PUSHES_MAX
                ? CompletableFuture.failedFuture(
                        new CacheException.Overloaded("the view on " + node.name() + " changes"))
                : push(node, create, attempt + 1);
    }

    /** Returns the item that stores a view on a node. */
    static Item held(View view) {
        return Item.of(Kind.VALUE, view.text().getBytes(StandardCharsets.UTF_8), 0, 0);
    }
}
