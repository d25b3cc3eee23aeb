package cellar.client.internal.net;

import cellar.client.CacheException;
import cellar.client.internal.wire.Dialect;
import cellar.client.internal.wire.LineOperation;
import cellar.client.internal.wire.Link;
import cellar.client.internal.wire.Out;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.EventLoop;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * An asynchronous connection to one node, kept up by itself.
 *
 * <p>{@link #submit} queues from any thread; everything else happens on one event loop. Requests
 * leave in the order they came, many in one write, and are answered in the same order.
 *
 * <pre>
 * IDLE --submit--> CONNECTING --handshake--> READY --broken--> CONNECTING
 *                      |  ^
 *               failed v  | pause over
 *                     PAUSE  (submit fails at once)
 * </pre>
 */
public final class Pipe {
    private static final int DRAIN_BYTES_MAX = 1 << 18;
    private static final long PROBE_NS_MIN = 50_000_000;

    /**
     * A wait for the server is split into this many parts, and the event loop reads the socket
     * between them. If this thread was delayed, because it loads classes or gets no processor, it
     * then reads an answer that has arrived before the wait ends.
     */
    private static final int WAIT_PARTS = 8;

    private static final long TICK_MS_MIN = 5;
    private static final long TICK_MS_MAX = 100;

    private enum State {
        IDLE,
        CONNECTING,
        READY,
        PAUSE,
        CLOSED
    }

    private final Endpoint endpoint;
    private final Settings settings;
    private final EventLoop loop;
    private final Backoff backoff;
    private final Queue<Call> submitted = new ConcurrentLinkedQueue<>();
    private final AtomicInteger inFlight = new AtomicInteger();
    private final AtomicBoolean scheduled = new AtomicBoolean();
    private final ArrayDeque<Call> sent = new ArrayDeque<>();
    private final Out out = new Out();
    private final Runnable drain = this::drain;
    private volatile State state = State.IDLE;
    private volatile @Nullable PipeHandler handler;
    private @Nullable Channel channel;
    private volatile Dialect dialect;
    private long received_ns;
    private boolean ticking;
    private boolean wasReady;
    private boolean probing;

    Pipe(Endpoint endpoint, EventLoop loop) {
        this.endpoint = endpoint;
        this.settings = endpoint.settings();
        this.dialect = settings.firstDialect();
        this.loop = loop;
        this.backoff = new Backoff(settings.backoffMin(), settings.backoffMax());
    }

    /** Queues a request; it completes at its deadline at the latest. */
    void submit(Call call) {
        State now = state;
        if (now == State.CLOSED) {
            call.fail(new CacheException.Closed());
        } else if (now == State.PAUSE) {
            call.fail(endpoint.down());
        } else if (inFlight.get() >= settings.inFlightMax()) {
            settings.metrics().overloaded(endpoint.name(), "requests");
            call.fail(
                    new CacheException.Overloaded(
                            settings.inFlightMax() + " requests to " + endpoint.name() + " wait"));
        } else {
            inFlight.incrementAndGet();
            submitted.add(call);
            schedule();
        }
    }

    /** Returns the number of unanswered requests. */
    int inFlight() {
        return inFlight.get();
    }

    /** Whether requests can be sent now. */
    boolean isReady() {
        return state == State.READY;
    }

    /** Whether {@code link} is the current connection. */
    boolean is(Link link) {
        PipeHandler open = handler;
        return open != null && open.link() == link;
    }

    private void schedule() {
        if (!scheduled.get() && scheduled.compareAndSet(false, true)) {
            loop.execute(drain);
        }
    }

    private void drain() {
        scheduled.set(false);
        switch (state) {
            case READY -> send();
            case IDLE -> connect();
            case PAUSE -> failSubmitted(endpoint.down());
            case CLOSED -> failSubmitted(new CacheException.Closed());
            default -> startTicking();
        }
    }

    private void send() {
        Channel to = channel;
        PipeHandler over = handler;
        if (to == null || over == null) {
            return;
        }
        if (sent.isEmpty()) {
            received_ns = System.nanoTime();
        }
        while (to.isWritable() && !submitted.isEmpty()) {
            encodeSome(over.link());
            flush(to);
        }
        startTicking();
    }

    private void encodeSome(Link link) {
        Call call;
        while (out.length() < DRAIN_BYTES_MAX && (call = submitted.poll()) != null) {
            if (call.isDone()) {
                inFlight.decrementAndGet();
                continue;
            }
            call.operation().goesOver(link);
            call.operation().encode(out, dialect);
            sent.add(call);
        }
    }

    private void flush(Channel to) {
        if (out.length() > 0) {
            ByteBuf buffer = to.alloc().directBuffer(out.length());
            buffer.writeBytes(out.bytes(), 0, out.length());
            out.clear();
            to.writeAndFlush(buffer, to.voidPromise());
        }
    }

    // Connecting.

    /** Opens the connection if it is not open, even without a request. */
    void start() {
        loop.execute(
                () -> {
                    if (state == State.IDLE) {
                        connect();
                    }
                });
    }

    /** Connects at once, without waiting for the end of a pause. */
    void hurry() {
        loop.execute(
                () -> {
                    if (state == State.IDLE || state == State.PAUSE) {
                        connect();
                    }
                });
    }

    /** Sends a command without effect; reports the result to the endpoint. */
    void probe() {
        loop.execute(
                () -> {
                    if (state == State.IDLE) {
                        connect();
                    } else if (state == State.READY && !probing) {
                        probing = true;
                        sendProbe();
                    }
                });
    }

    private void sendProbe() {
        LineOperation probe = LineOperation.alive(dialect);
        long patience_ns = Math.max(PROBE_NS_MIN, settings.timeout().toNanos() / 4);
        probe.whenComplete(
                (line, failure) -> {
                    probing = false;
                    if (failure == null) {
                        endpoint.up();
                    }
                });
        long heard = endpoint.lanes().timesHeard();
        await(patience_ns, () -> !probe.isDone(), () -> silent(heard));
        inFlight.incrementAndGet();
        submitted.add(new Call(probe, System.nanoTime() + settings.timeout().toNanos()));
        schedule();
    }

    /** Runs {@code late} if {@code waits} is still true after {@code wait_ns}, counted in parts. */
    private void await(long wait_ns, BooleanSupplier waits, Runnable late) {
        await(wait_ns / WAIT_PARTS, WAIT_PARTS, waits, late);
    }

    private void await(long part_ns, int parts, BooleanSupplier waits, Runnable late) {
        if (!waits.getAsBoolean()) {
            return;
        }
        if (parts == 0) {
            late.run();
            return;
        }
        Runnable next = () -> await(part_ns, parts - 1, waits, late);
        loop.schedule(next, part_ns, TimeUnit.NANOSECONDS);
    }

    private void silent(long heardBefore) {
        boolean heard = endpoint.lanes().timesHeard() != heardBefore;
        if (!heard && state == State.READY) {
            fallSilent();
        }
    }

    /** The node is down at once, without waiting for a failed reconnection. */
    private void fallSilent() {
        CacheException silence = endpoint.silent();
        endpoint.failed(silence);
        close(silence);
    }

    private void connect() {
        state = State.CONNECTING;
        startTicking();
        PipeHandler attempt = new PipeHandler(this);
        handler = attempt;
        Connector.open(endpoint, loop, attempt)
                .whenComplete(
                        (opened, failure) -> {
                            if (failure != null && handler == attempt) {
                                failed(failure);
                            }
                        });
        long heard = endpoint.lanes().timesHeard();
        await(
                settings.connectTimeout().toNanos(),
                () -> state == State.CONNECTING && handler == attempt,
                () -> connectTimedOut(attempt, heard));
    }

    private void connectTimedOut(PipeHandler attempt, long heardBefore) {
        CacheException late = new CacheException.Timeout(endpoint.name() + " does not answer");
        attempt.close();
        if (endpoint.lanes().timesHeard() == heardBefore) {
            broken(attempt, late);
            return;
        }
        // Blocking calls have answers from the node, so only this attempt failed.
        handler = null;
        channel = null;
        failSent(late);
        connect();
    }

    /** The socket is connected and, if configured, encrypted. */
    void opened(PipeHandler which, Channel open) {
        if (handler != which || state != State.CONNECTING) {
            open.close();
            return;
        }
        channel = open;
        String authentication = settings.authentication();
        if (authentication == null) {
            askVersion();
        } else {
            greet("auth", authentication, this::authenticated);
        }
    }

    private void authenticated(String line) {
        if (!line.equals(settings.authenticated())) {
            close(new CacheException.Refused(endpoint.name() + " said " + line));
            return;
        }
        askVersion();
    }

    private void askVersion() {
        if (settings.redis()) {
            greet("ping", "PING\r\n", this::pinged);
        } else {
            greet("version", "version\r\n", this::versionKnown);
        }
    }

    private void pinged(String line) {
        if (line.equals("PONG")) {
            ready(Dialect.RESP);
        } else {
            close(new CacheException.Refused(endpoint.name() + " said " + line));
        }
    }

    private void versionKnown(String line) {
        String version = line.startsWith("VERSION ") ? line.substring(8) : "";
        if (Dialect.mayBeMeta(version)) {
            greet("mn", "mn\r\n", answer -> guarded(Dialect.of(version, answer.equals("MN"))));
        } else {
            guarded(Dialect.of(version, false));
        }
    }

    private void guarded(Dialect known) {
        String guard = settings.guardRequest();
        if (guard == null) {
            ready(known);
            return;
        }
        greet(
                "guard",
                guard,
                line -> {
                    CacheException wrong = Settings.guardFailure(endpoint.name(), line);
                    if (wrong == null) {
                        ready(known);
                    } else {
                        close(wrong);
                    }
                });
    }

    private void greet(String name, String request, Consumer<String> next) {
        LineOperation greeting = new LineOperation(name, request);
        inFlight.incrementAndGet();
        // It ends with the attempt to connect.
        sent.add(new Call(greeting, System.nanoTime() + Long.MAX_VALUE));
        greeting.encode(out, dialect);
        Channel to = channel;
        if (to != null) {
            flush(to);
        }
        greeting.thenAccept(next);
    }

    private void ready(Dialect known) {
        dialect = known;
        if (state != State.CONNECTING) {
            return;
        }
        state = State.READY;
        backoff.reset();
        settings.metrics().connected(endpoint.name(), wasReady);
        wasReady = true;
        endpoint.up();
        send();
    }

    /** Returns the dialect of the server. */
    Dialect dialect() {
        return dialect;
    }

    // Receiving.

    /** Bytes have arrived. */
    void received(PipeHandler handler) {
        received_ns = System.nanoTime();
        Call call;
        while ((call = sent.peek()) != null && call.operation().decode(handler.in(), dialect)) {
            sent.poll();
            inFlight.decrementAndGet();
            call.operation().finish();
        }
        if (call == null && handler.in().available() > 0) {
            throw new CacheException.Protocol("the server sent bytes without a request");
        }
    }

    /** The socket can be written again. */
    void writable() {
        if (state == State.READY) {
            send();
        }
    }

    // Ending.

    /** The connection has ended; {@code cause} is null if the server closed it. */
    void broken(PipeHandler which, @Nullable Throwable cause) {
        if (handler != which) {
            return;
        }
        handler = null;
        channel = null;
        State before = state;
        if (before == State.CONNECTING) {
            failSent(cause);
            failed(cause == null ? new CacheException.Connection("closed", null) : cause);
            return;
        }
        if (before == State.READY) {
            settings.metrics().disconnected(endpoint.name());
            state = State.IDLE;
            endpoint.broken();
            failSent(cause);
            connect();
        }
    }

    private void failed(Throwable cause) {
        if (state != State.CONNECTING) {
            return;
        }
        state = State.PAUSE;
        settings.metrics().disconnected(endpoint.name());
        endpoint.failed(cause);
        failSubmitted(endpoint.down());
        loop.schedule(this::pauseOver, backoff.next_ms(), TimeUnit.MILLISECONDS);
    }

    private void pauseOver() {
        if (state == State.PAUSE) {
            connect();
        }
    }

    private void failSent(@Nullable Throwable cause) {
        CacheException failure =
                cause instanceof CacheException known
                        ? known
                        : new CacheException.Connection(
                                "the connection to " + endpoint.name() + " broke", cause);
        out.clear();
        Call call;
        while ((call = sent.poll()) != null) {
            if (failure instanceof CacheException.Connection && call.mayRepeat()) {
                submitted.add(call);
            } else {
                inFlight.decrementAndGet();
                call.fail(failure);
            }
        }
    }

    private void failSubmitted(CacheException failure) {
        Call call;
        while ((call = submitted.poll()) != null) {
            inFlight.decrementAndGet();
            call.fail(failure);
        }
    }

    /** Closes the socket with a reason; the connection is opened again when it is needed. */
    void close(CacheException reason) {
        PipeHandler open = handler;
        if (open != null) {
            open.close();
            broken(open, reason);
        }
    }

    /** Closes the connection permanently. */
    void shutdown() {
        state = State.CLOSED;
        loop.execute(
                () -> {
                    PipeHandler open = handler;
                    handler = null;
                    channel = null;
                    failSent(new CacheException.Closed());
                    failSubmitted(new CacheException.Closed());
                    if (open != null) {
                        open.close();
                    }
                });
    }

    // Deadlines.

    private void startTicking() {
        if (!ticking) {
            ticking = true;
            long period_ms = settings.timeout().toMillis() / 8;
            period_ms = Math.max(TICK_MS_MIN, Math.min(TICK_MS_MAX, period_ms));
            loop.schedule(this::tick, period_ms, TimeUnit.MILLISECONDS);
        }
    }

    private void tick() {
        ticking = false;
        long now_ns = System.nanoTime();
        expire(submitted.iterator(), now_ns, true);
        boolean late = expire(sent.iterator(), now_ns, false);
        boolean silent = now_ns - received_ns > settings.timeout().toNanos();
        if (late && silent && state == State.READY) {
            fallSilent();
        }
        if (!sent.isEmpty() || !submitted.isEmpty()) {
            startTicking();
        }
    }

    /** Fails calls past their deadline; true if there was any. Stops at the first that is not. */
    private boolean expire(Iterator<Call> calls, long now_ns, boolean remove) {
        boolean late = false;
        while (calls.hasNext()) {
            Call call = calls.next();
            if (!call.isLate(now_ns)) {
                break;
            }
            late = true;
            call.fail(endpoint.timedOut(call.operation()));
            if (remove) {
                calls.remove();
                inFlight.decrementAndGet();
            }
        }
        return late;
    }
}
