package cellar.client.internal;

import cellar.client.internal.cluster.Cluster;
import cellar.client.internal.net.Loops;
import cellar.client.internal.net.Settings;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;

/** What all views of a client share: the nodes, the threads, the settings. */
public final class Core {
    private final Cluster cluster;
    private final Loops loops;
    private final Settings settings;
    private final List<Runnable> onClose = new CopyOnWriteArrayList<>();
    private final AtomicBoolean closed = new AtomicBoolean();

    /** {@code onClose} runs once, before the connections end. */
    public Core(Cluster cluster, Loops loops, Settings settings, Runnable onClose) {
        this.cluster = cluster;
        this.loops = loops;
        this.settings = settings;
        this.onClose.add(onClose);
    }

    /** {@code more} runs once too, before the connections end. */
    public void onClose(Runnable more) {
        onClose.add(more);
    }

    /** The nodes. */
    public Cluster cluster() {
        return cluster;
    }

    /** The threads. */
    public Loops loops() {
        return loops;
    }

    /** How connections are made. */
    public Settings settings() {
        return settings;
    }

    /** Ends everything; a second call does nothing. */
    public void close() {
        if (closed.compareAndSet(false, true)) {
            onClose.forEach(Runnable::run);
            cluster.close();
            loops.close();
        }
    }
}
