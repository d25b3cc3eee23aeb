package cellar.client.internal;

import cellar.client.internal.cluster.Cluster;
import cellar.client.internal.net.Loops;
import cellar.client.internal.net.Settings;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;

/** What all views of a client share: the nodes, the threads, the settings. */
public final class Core {
    private final Cluster cluster;
    private final Loops loops;
    private final Settings settings;
    private final LongSupplier ticker;
    private final Absences absences;
    private final List<Runnable> onClose = new CopyOnWriteArrayList<>();
    private final AtomicBoolean closed = new AtomicBoolean();

    /** {@code onClose} runs once, before the connections end; {@code ticker} gives nanoseconds. */
    public Core(
            Cluster cluster,
            Loops loops,
            Settings settings,
            LongSupplier ticker,
            Runnable onClose) {
        this.cluster = cluster;
        this.loops = loops;
        this.settings = settings;
        this.ticker = ticker;
        this.absences = new Absences(ticker);
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

    /** What the clock says, in nanoseconds. */
    public LongSupplier ticker() {
        return ticker;
    }

    /** What loaders have not found. */
    Absences absences() {
        return absences;
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
