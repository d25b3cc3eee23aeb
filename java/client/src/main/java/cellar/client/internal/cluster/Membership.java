package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.Discovery;
import cellar.client.Node;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Gets the nodes from a {@link Discovery}, at the start and then periodically. */
public final class Membership implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Membership.class);

    private final Discovery discovery;
    private final List<Node> first;
    private @Nullable ScheduledExecutorService executor;
    private List<Node> known;

    /**
     * Gets the nodes for the first time.
     *
     * @throws CacheException.Configuration if the discovery fails or finds no nodes
     */
    public Membership(Discovery discovery) {
        this.discovery = discovery;
        try {
            first = List.copyOf(discovery.nodes());
        } catch (Exception e) {
            throw new CacheException.Configuration("the nodes cannot be found", e);
        }
        if (first.isEmpty()) {
            throw new CacheException.Configuration("no nodes were found", null);
        }
        known = first;
    }

    /** Returns the nodes found at the start. */
    public List<Node> first() {
        return first;
    }

    /** Calls {@code changed} with other nodes, if the discovery is periodic. */
    public void follow(Consumer<List<Node>> changed) {
        long period_ms = discovery.period().toMillis();
        if (period_ms <= 0) {
            return;
        }
        ScheduledExecutorService asking =
                Executors.newSingleThreadScheduledExecutor(
                        task -> {
                            Thread thread = new Thread(task, "cellar-discovery");
                            thread.setDaemon(true);
                            return thread;
                        });
        executor = asking;
        asking.scheduleWithFixedDelay(
                () -> ask(changed), period_ms, period_ms, TimeUnit.MILLISECONDS);
    }

    private void ask(Consumer<List<Node>> changed) {
        try {
            List<Node> now = discovery.nodes();
            if (!now.isEmpty() && !now.equals(known)) {
                LOG.info("the nodes are {} from now on", now);
                known = List.copyOf(now);
                changed.accept(known);
            }
        } catch (Exception e) {
            LOG.warn("the nodes cannot be found, those known stay", e);
        }
    }

    @Override
    public void close() {
        ScheduledExecutorService asking = executor;
        if (asking != null) {
            asking.shutdownNow();
        }
    }
}
