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
 * One node with all connections to it, and whether it is up.
 *
 * <p>Its first pipe decides: the node is down from a failed connection until one succeeds. Requests
 * to a node that is down fail at once.
 */
public class Endpoint {
    /** Is told when a node goes down or comes back. Must not block. */
    public interface Listener {
        /** A connection failed, or the first pipe's broke. */
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

    /** Opens nothing yet. */
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

    /** The node. */
    public Node node() {
        return node;
    }

    /** Its address, for messages and metrics. */
    public String name() {
        return node.toString();
    }

    /** How connections are made. */
    public Settings settings() {
        return settings;
    }

    /** The threads. */
    public Loops loops() {
        return loops;
    }

    /** Sends a request; the caller goes on. */
    public <R extends @Nullable Object> CompletableFuture<R> submit(Operation<R> operation) {
        long start_ns = System.nanoTime();
        if (measured) {
            operation.whenComplete((answer, failure) -> measure(operation, start_ns, failure));
        }
        send(operation, start_ns + settings.timeout().toNanos());
        return operation;
    }

    /** Sends a request that completes by its deadline at the latest. */
    void send(Operation<?> operation, long deadline_ns) {
        pipe(operation).submit(new Call(operation, deadline_ns));
    }

    /** The same, and returns when it is complete. */
    void sendAndWait(Operation<?> operation, long deadline_ns) {
        lanes.call(operation, deadline_ns);
    }

    /** The connection that the operation prefers if it is still there, else the next in turn. */
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

    /** Sends a request and waits; the answer or failure is in the operation when this returns. */
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

    /** How many requests are not answered. */
    public int inFlight() {
        return pipes.stream().mapToInt(Pipe::inFlight).sum() + lanes.inFlight();
    }

    /** What the server understands; the classic dialect before the first connection. */
    public Dialect dialect() {
        return pipes.get(0).dialect();
    }

    /** Tells {@code listener} from now on. */
    public void listen(Listener listener) {
        listeners.add(listener);
    }

    /** Opens the first connection, so that the node's state is known. */
    public void start() {
        pipes.get(0).start();
    }

    /** Connects at once if it is not connected; somebody has heard from the node. */
    public void hurry() {
        if (!isReady() || isDown()) {
            pipes.forEach(Pipe::hurry);
        }
    }

    /** Sends a request over a connection of its own, which ends with the answer. */
    public <R> CompletableFuture<R> submitAlone(Operation<R> operation, Duration timeout) {
        Pipe pipe = new Pipe(this, loops.next());
        pipe.submit(new Call(operation, System.nanoTime() + timeout.toNanos()));
        return operation.whenComplete((answer, failure) -> pipe.shutdown());
    }

    /** An event loop for what belongs to this node. */
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

    /** Why requests fail at once. */
    CacheException down() {
        String why =
                downCause instanceof CacheException.Refused ? ": " + downCause.getMessage() : "";
        return new CacheException.Connection(name() + " is down" + why, downCause);
    }

    /** The connections on which callers wait. */
    Lanes lanes() {
        return lanes;
    }

    CacheException timedOut(Operation<?> operation) {
        return new CacheException.Timeout(
                operation.name() + " had no answer from " + name() + " in " + settings.timeout());
    }

    /** The server may still execute what it has not answered. */
    CacheException silent() {
        return new CacheException.Timeout(name() + " has gone silent");
    }

    /** Nobody could connect: the node is down until the first pipe finds that it answers. */
    void unreachable(Throwable cause) {
        failed(cause);
        pipes.get(0).probe();
    }

    /** A request had no answer: the first pipe finds out whether the node is down. */
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

    /** Whether it is not used any more. */
    public boolean isClosed() {
        return closed;
    }

    /** Ends all connections. */
    public void close() {
        closed = true;
        pipes.forEach(Pipe::shutdown);
        lanes.close();
    }
}
