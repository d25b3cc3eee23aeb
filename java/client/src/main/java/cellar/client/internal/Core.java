package cellar.client.internal;

import cellar.client.internal.cluster.Cluster;
import cellar.client.internal.net.Loops;
import cellar.client.internal.net.Settings;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;

/** The state that all views of a client share: nodes, threads and settings. */
public final class Core {
    private final Cluster cluster;
    private final Loops loops;
    private final Settings settings;
    private final LongSupplier ticker;
    private final Absences absences;
    private final List<Runnable> onClose = new CopyOnWriteArrayList<>();
    private final AtomicBoolean closed = new AtomicBoolean();

    /**
     * {@code onClose} runs once, before the connections are closed; {@code ticker} returns
     * nanoseconds.
     */
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

    /** Also runs {@code more} once, before the connections are closed. */
    public void onClose(Runnable more) {
        onClose.add(more);
    }

    /** Returns the nodes. */
    public Cluster cluster() {
        return cluster;
    }

    /** Returns the threads. */
    public Loops loops() {
        return loops;
    }

    /** Returns the settings of connections. */
    public Settings settings() {
        return settings;
    }

    /** Returns the clock, in nanoseconds. */
    public LongSupplier ticker() {
        return ticker;
    }

    /** Returns the keys for which loaders have found nothing. */
    Absences absences() {
        return absences;
    }

    /** Closes everything; a second call has no effect. */
    public void close() {
        if (closed.compareAndSet(false, true)) {
            onClose.forEach(Runnable::run);
            cluster.close();
            loops.close();
        }
    }
}
