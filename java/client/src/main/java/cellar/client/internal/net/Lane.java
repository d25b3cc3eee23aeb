package cellar.client.internal.net;

import cellar.client.CacheException;
import cellar.client.internal.wire.Dialect;
import cellar.client.internal.wire.In;
import cellar.client.internal.wire.LineOperation;
import cellar.client.internal.wire.Operation;
import cellar.client.internal.wire.Out;
import java.io.IOException;
import java.nio.channels.ClosedChannelException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/**
 * A connection for blocking calls; it has no thread.
 *
 * <p>A caller queues its request. One of the callers is the leader: it writes all queued requests
 * at once, reads, and wakes the others as their answers arrive. When the leader has its own answer,
 * it sends what has been queued meanwhile and makes the first waiting caller the leader. A single
 * caller thus costs one write and one read; many callers share them. With checked connections, the
 * leader first sends a command without effect and waits for the reply. All requests queued until
 * then go over a connection that works. It sends nothing more while answers are outstanding.
 *
 * <p>Invariant: the leader owns all fields except the queue and the volatile ones. {@link
 * Waiter#promote} and {@link #led} pass on the leadership with the necessary memory ordering.
 */
final class Lane {
    /** Limit of unanswered request bytes when more are sent, so that neither side blocks. */
    private static final int UNDER_WAY_BYTES_MAX = 48 << 10;

    /** A connection that was idle for this long is checked for a close before it is used. */
    private static final long IDLE_NS_MAX = 1_000_000_000;

    /**
     * How often a caller yields before it sleeps. If there are more callers than processors, its
     * answer has often arrived when it runs again, and nobody has to wake it.
     */
    private static final int YIELDS_MAX = 2;

    private final Endpoint endpoint;
    private final Settings settings;
    private final Queue<Waiter> queue = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean led = new AtomicBoolean();
    private final ArrayDeque<Waiter> sent = new ArrayDeque<>();
    private final Out out = new Out();
    private In in = new In();
    private Dialect dialect;
    private int underWay_bytes;
    private long used_ns;
    private boolean greeted;
    private boolean wasOpen;

    /** Whether the server has just answered the handshake, and nothing has been sent since. */
    private boolean answered;

    private volatile @Nullable Wire wire;

    /** When the leader's current read or write must end; 0 if it is in neither. */
    private volatile long waitUntil_ns;

    Lane(Endpoint endpoint) {
        this.endpoint = endpoint;
        this.settings = endpoint.settings();
        this.dialect = settings.firstDialect();
    }

    /** Whether a caller uses it. */
    boolean isLed() {
        return led.get();
    }

    /** Sends and waits; returns when the operation is complete. Only for the waiter's thread. */
    void call(Waiter me) {
        if (Thread.currentThread().isInterrupted()) {
            me.fail(interrupted());
            return;
        }
        queue.add(me);
        if (led.compareAndSet(false, true)) {
            lead(me);
        } else {
            follow(me);
        }
    }

    private void follow(Waiter me) {
        for (int i = 0; i < YIELDS_MAX && me.isOnlyWaiting(); i++) {
            Thread.yield();
        }
        while (!me.isDone()) {
            if (me.leads() || led.compareAndSet(false, true)) {
                lead(me);
                return;
            }
            long left_ns = me.deadline_ns() - System.nanoTime();
            boolean interrupted = Thread.currentThread().isInterrupted();
            if (left_ns > 0 && !interrupted) {
                me.sleep(this, left_ns);
            } else if (me.leave()) {
                me.fail(interrupted ? interrupted() : endpoint.timedOut(me.operation()));
            }
        }
    }

    private void lead(Waiter me) {
        do {
            try {
                while (!me.isDone()) {
                    ready();
                    send();
                    receive();
                }
                if (!settings.checked()) {
                    send();
                }
            } catch (IOException | RuntimeException e) {
                breakDown(e);
            }
        } while (!me.isDone());
        handOver();
    }

    /** Makes the first waiting caller the leader, or nobody if none waits. */
    private void handOver() {
        used_ns = System.nanoTime();
        do {
            if (promoted(sent) || promotedQueued()) {
                return;
            }
            led.set(false);
        } while (!queue.isEmpty() && led.compareAndSet(false, true));
    }

    /** Drops callers that have left; their requests are not sent. */
    private boolean promotedQueued() {
        Waiter first;
        while ((first = queue.peek()) != null) {
            if (promoted(first)) {
                return true;
            }
            queue.poll();
        }
        return false;
    }

    private static boolean promoted(Iterable<Waiter> waiters) {
        for (Waiter waiter : waiters) {
            if (promoted(waiter)) {
                return true;
            }
        }
        return false;
    }

    private static boolean promoted(Waiter waiter) {
        if (waiter.isDone() || !waiter.promote()) {
            return false;
        }
        waiter.wake();
        return true;
    }

    // What the leader does.

    private void send() throws IOException {
        if (settings.checked() && !checked()) {
            return;
        }
        Waiter next;
        while ((next = queue.peek()) != null) {
            Operation<?> operation = next.operation();
            boolean fits = underWay_bytes + operation.size() <= UNDER_WAY_BYTES_MAX;
            if (!fits && !sent.isEmpty()) {
                break;
            }
            queue.poll();
            if (!operation.isDone()) {
                operation.encode(out, dialect);
                sent.add(next);
                underWay_bytes += operation.size();
            }
        }
        Wire to = wire;
        Waiter oldest = sent.peek();
        if (out.length() > 0 && to != null && oldest != null) {
            waitUntil_ns = oldest.deadline_ns();
            to.write(out);
            waitUntil_ns = 0;
            out.clear();
        }
    }

    /** Checks the connection; false if answers to earlier requests must be read first. */
    private boolean checked() throws IOException {
        Wire to = wire;
        Waiter first = queue.peek();
        if (!sent.isEmpty() || to == null || first == null) {
            return false;
        }
        if (!answered) {
            waitUntil_ns = first.deadline_ns();
            ask(to, LineOperation.alive(dialect));
            waitUntil_ns = 0;
        }
        answered = false;
        return true;
    }

    private void receive() throws IOException {
        Waiter oldest = sent.peek();
        Wire from = wire;
        if (oldest == null || from == null) {
            return;
        }
        waitUntil_ns = oldest.deadline_ns();
        from.read(in, endpoint.lanes().inFlight() == 1);
        waitUntil_ns = 0;
        endpoint.lanes().heard();
        while (oldest != null && oldest.operation().decode(in, dialect)) {
            sent.poll();
            oldest.operation().finish();
            oldest.wake();
            oldest = sent.peek();
        }
        if (oldest == null) {
            underWay_bytes = 0;
            if (in.available() > 0) {
                throw new CacheException.Protocol("the server sent bytes without a request");
            }
        }
    }

    /** Opens a connection if there is none that works. */
    private void ready() throws IOException {
        Wire open = wire;
        if (open != null && sent.isEmpty() && System.nanoTime() - used_ns > IDLE_NS_MAX) {
            used_ns = System.nanoTime();
            if (!open.isOpen()) {
                closeWire();
                open = null;
            }
        }
        if (open == null) {
            open();
        }
    }

    private void open() throws IOException {
        if (endpoint.isClosed()) {
            throw new CacheException.Closed();
        }
        Wire opened = Wire.open(endpoint.node(), settings);
        wire = opened;
        greeted = false;
        in = new In();
        out.clear();
        long patience_ns =
                Math.min(settings.connectTimeout().toNanos(), settings.timeout().toNanos());
        long until_ns = System.nanoTime() + patience_ns;
        waitUntil_ns = until_ns;
        try {
            greet(opened);
        } catch (IOException e) {
            if (System.nanoTime() - until_ns < 0) {
                throw e;
            }
            throw new CacheException.Timeout(endpoint.name() + " does not answer");
        }
        waitUntil_ns = 0;
        greeted = true;
        answered = true;
        settings.metrics().connected(endpoint.name(), wasOpen);
        wasOpen = true;
    }

    private void greet(Wire opened) throws IOException {
        dialect = settings.firstDialect();
        String authentication = settings.authentication();
        if (authentication != null) {
            String line = ask(opened, authentication);
            if (!line.equals(settings.authenticated())) {
                throw new CacheException.Refused(endpoint.name() + " said " + line);
            }
        }
        if (settings.redis()) {
            String pong = ask(opened, "PING\r\n");
            if (!pong.equals("PONG")) {
                throw new CacheException.Refused(endpoint.name() + " said " + pong);
            }
            return;
        }
        String line = ask(opened, "version\r\n");
        String version = line.startsWith("VERSION ") ? line.substring(8) : "";
        boolean meta = Dialect.mayBeMeta(version) && ask(opened, "mn\r\n").equals("MN");
        dialect = Dialect.of(version, meta);
        String guard = settings.guardRequest();
        CacheException wrong =
                guard == null ? null : Settings.guardFailure(endpoint.name(), ask(opened, guard));
        if (wrong != null) {
            throw wrong;
        }
    }

    private String ask(Wire opened, String request) throws IOException {
        return ask(opened, new LineOperation("greeting", request));
    }

    private String ask(Wire opened, LineOperation greeting) throws IOException {
        greeting.encode(out, dialect);
        opened.write(out);
        out.clear();
        while (!greeting.decode(in, dialect)) {
            opened.read(in, false);
        }
        greeting.finish();
        return greeting.join();
    }

    // Ends.

    private void breakDown(Exception cause) {
        waitUntil_ns = 0;
        boolean worked = wire != null && greeted;
        closeWire();
        settings.metrics().disconnected(endpoint.name());
        List<Waiter> broken = new ArrayList<>(sent);
        sent.clear();
        underWay_bytes = 0;
        out.clear();
        long now_ns = System.nanoTime();
        if (!worked) {
            failQueued(cause, now_ns);
        }
        if (!worked && !(cause instanceof CacheException.Timeout)) {
            endpoint.unreachable(cause);
        } else if (!worked) {
            // This thread may have been late, not the server.
            endpoint.suspect();
        } else if (cause instanceof ClosedChannelException) {
            endpoint.suspect();
        }
        boolean silent = broken.stream().anyMatch(waiter -> waiter.isLate(now_ns));
        for (Waiter waiter : broken) {
            CacheException failure = failure(waiter, cause, now_ns);
            boolean unanswered = failure instanceof CacheException.Connection;
            if (unanswered && waiter.mayRepeat()) {
                queue.add(waiter);
            } else {
                waiter.fail(unanswered && silent ? endpoint.silent() : failure);
                waiter.wake();
            }
        }
    }

    private void failQueued(Exception cause, long now_ns) {
        Waiter waiter;
        while ((waiter = queue.poll()) != null) {
            waiter.fail(failure(waiter, cause, now_ns));
            waiter.wake();
        }
    }

    private CacheException failure(Waiter waiter, Exception cause, long now_ns) {
        if (cause instanceof CacheException known) {
            return known;
        }
        if (waiter.isMine() && Thread.currentThread().isInterrupted()) {
            return interrupted();
        }
        if (waiter.isLate(now_ns)) {
            return endpoint.timedOut(waiter.operation());
        }
        return new CacheException.Connection(
                "the connection to " + endpoint.name() + " broke", cause);
    }

    private static CacheException interrupted() {
        return new CacheException.Loading("interrupted", new InterruptedException());
    }

    private void closeWire() {
        Wire open = wire;
        wire = null;
        if (open != null) {
            try {
                open.close();
            } catch (IOException e) {
                // The socket is not used any more.
                return;
            }
        }
    }

    /** Ends an overdue wait; called from another thread. */
    void watch(long now_ns) {
        long until_ns = waitUntil_ns;
        if (until_ns != 0 && until_ns - now_ns < 0) {
            close();
        }
    }

    /** Closes the socket, so the waiting callers fail. Called from another thread. */
    void close() {
        Wire open = wire;
        if (open != null) {
            try {
                open.close();
            } catch (IOException e) {
                // The leader notices that the socket does not work.
                return;
            }
        }
    }
}
