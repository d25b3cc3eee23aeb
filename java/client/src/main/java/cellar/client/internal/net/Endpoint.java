package cellar.client.internal.net;

import cellar.client.CacheException;
import cellar.client.CacheMetrics;
import cellar.client.CacheMetrics.Outcome;
import cellar.client.Node;
import cellar.client.internal.wire.Dialect;
import cellar.client.internal.wire.Link;
import cellar.client.internal.wire.Operation;
import io.netty.channel.EventLoop;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * A node with all connections to it, and whether it is up.
 *
 * <p>Its first pipe decides this: the node is down from a failed connection until one succeeds.
 * Requests to a node that is down fail at once.
 */
public class Endpoint {
    /** Receives changes of a node's state. Must not block. */
    public interface Listener {
        /** A connection failed, or the first pipe's connection broke. */
        void lost(Endpoint endpoint);

        /** The first pipe is connected. */
        void back(Endpoint endpoint);
    }

    private final Node node;
    private final Settings settings;
    private final Loops loops;
    private final List<Pipe> pipes;
    private final Lanes lanes;
    private final AtomicInteger turn = new AtomicInteger();
    private final List<Listener> listeners = new CopyOnWriteArrayList<>();
    private final boolean measured;
    private volatile @Nullable Throwable downCause;
    private volatile boolean closed;

    /** Creates the node without connecting. */
    public Endpoint(Node node, Settings settings, Loops loops) {
        this.node = node;
        this.settings = settings;
        this.loops = loops;
        this.measured = settings.metrics() != CacheMetrics.NONE;
        this.pipes =
                IntStream.range(0, settings.pipes())
                        .mapToObj(index -> new Pipe(this, loops.next()))
                        .toList();
        this.lanes = new Lanes(this, settings.lanes());
        settings.metrics().gauge(name(), this::inFlight);
    }

    /** Returns the node. */
    public Node node() {
        return node;
    }

    /** Returns its address, for messages and metrics. */
    public String name() {
        return node.toString();
    }

    /** Returns the settings of connections. */
    public Settings settings() {
        return settings;
    }

    /** Returns the threads. */
    public Loops loops() {
        return loops;
    }

    /** Sends a request without waiting. */
    public <R extends @Nullable Object> CompletableFuture<R> submit(Operation<R> operation) {
        long start_ns = System.nanoTime();
        if (measured) {
            operation.whenComplete((answer, failure) -> measure(operation, start_ns, failure));
        }
        send(operation, start_ns + settings.timeout().toNanos());
        return operation;
    }

    /** Sends a request that completes at its deadline at the latest. */
    void send(Operation<?> operation, long deadline_ns) {
        pipe(operation).submit(new Call(operation, deadline_ns));
    }

    /** Sends a request and returns when it is complete. */
    void sendAndWait(Operation<?> operation, long deadline_ns) {
        lanes.call(operation, deadline_ns);
    }

    /**
     * Returns the connection that the operation prefers if it still exists, otherwise the next in
     * turn.
     */
    private Pipe pipe(Operation<?> operation) {
        if (pipes.size() == 1) {
            return pipes.get(0);
        }
        Link preferred = operation.prefers();
        if (preferred != null) {
            for (Pipe pipe : pipes) {
                if (pipe.is(preferred)) {
                    return pipe;
                }
            }
        }
        return pipes.get((turn.getAndIncrement() & 0x7fffffff) % pipes.size());
    }

    /** Sends a request and waits; when this returns, the operation has its answer or failure. */
    public void call(Operation<?> operation) {
        long start_ns = System.nanoTime();
        sendAndWait(operation, start_ns + settings.timeout().toNanos());
        if (measured) {
            measure(operation, start_ns, operation.isCompletedExceptionally() ? operation : null);
        }
    }

    private void measure(Operation<?> operation, long start_ns, @Nullable Object failure) {
        long latency_ns = System.nanoTime() - start_ns;
        Outcome outcome = operation.isMiss() ? Outcome.MISS : Outcome.HIT;
        outcome = failure == null ? outcome : Outcome.FAILURE;
        settings.metrics().request(name(), operation.name(), outcome, latency_ns);
    }

    /** Returns the number of unanswered requests. */
    public int inFlight() {
        return pipes.stream().mapToInt(Pipe::inFlight).sum() + lanes.inFlight();
    }

    /** Returns the dialect of the server; the classic one before the first connection. */
    public Dialect dialect() {
        return pipes.get(0).dialect();
    }

    /** Adds a listener. */
    public void listen(Listener listener) {
        listeners.add(listener);
    }

    /** Opens the first connection, to detect whether the node is up. */
    public void start() {
        pipes.get(0).start();
    }

    /** Connects at once if it is not connected, because another connection got an answer. */
    public void hurry() {
        if (!isReady() || isDown()) {
            pipes.forEach(Pipe::hurry);
        }
    }

    /** Sends a request over a separate connection, which closes after the answer. */
    public <R> CompletableFuture<R> submitAlone(Operation<R> operation, Duration timeout) {
        Pipe pipe = new Pipe(this, loops.next());
        pipe.submit(new Call(operation, System.nanoTime() + timeout.toNanos()));
        return operation.whenComplete((answer, failure) -> pipe.shutdown());
    }

    /** Returns an event loop for this node's other connections. */
    public EventLoop loop() {
        return loops.next();
    }

    /** Whether requests fail at once. */
    public boolean isDown() {
        return downCause != null;
    }

    /** Whether the first pipe is connected. */
    public boolean isReady() {
        return pipes.get(0).isReady();
    }

    /** Returns the exception for requests to a node that is down. */
    CacheException down() {
        String why =
                downCause instanceof CacheException.Refused ? ": " + downCause.getMessage() : "";
        return new CacheException.Connection(name() + " is down" + why, downCause);
    }

    /** Returns the connections for blocking calls. */
    Lanes lanes() {
        return lanes;
    }

    CacheException timedOut(Operation<?> operation) {
        return new CacheException.Timeout(
                operation.name() + " had no answer from " + name() + " in " + settings.timeout());
    }

    /** Returns the exception of requests without an answer, which the server may still execute. */
    CacheException silent() {
        return new CacheException.Timeout(name() + " has stopped answering");
    }

    /** A connection failed: the node is down until the first pipe gets an answer. */
    void unreachable(Throwable cause) {
        failed(cause);
        pipes.get(0).probe();
    }

    /** A request had no answer: the first pipe checks whether the node is down. */
    void suspect() {
        pipes.get(0).probe();
    }

    void up() {
        downCause = null;
        listeners.forEach(listener -> listener.back(this));
    }

    void broken() {
        listeners.forEach(listener -> listener.lost(this));
    }

    void failed(Throwable cause) {
        Throwable inner = cause instanceof CompletionException ? cause.getCause() : null;
        boolean first = downCause == null;
        downCause = inner == null ? cause : inner;
        if (first) {
            listeners.forEach(listener -> listener.lost(this));
        }
    }

    /** Whether {@link #close} was called. */
    public boolean isClosed() {
        return closed;
    }

    /** Closes all connections. */
    public void close() {
        closed = true;
        pipes.forEach(Pipe::shutdown);
        lanes.close();
    }
}
