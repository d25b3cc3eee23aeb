package cellar.client.internal.local;

import cellar.client.CacheException;
import cellar.client.internal.net.Backoff;
import cellar.client.internal.net.Connector;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.net.Settings;
import cellar.client.internal.wire.In;
import cellar.client.internal.wire.RespReader;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.EventLoop;
import io.netty.util.concurrent.ScheduledFuture;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The connection on which one server tells of changes, in RESP3.
 *
 * <p>A key is tracked by asking for its remaining time ({@code PTTL}), which the server counts as a
 * read; the value itself is read after the reply, so every later change is told of. Whatever may
 * have lost a message (a broken connection, silence, a flush) begins a new epoch, which ends all
 * copies of the old one at once.
 */
final class TrackingConnection implements Tracking.Source {
    /** Silence for so long makes the connection ask for a sign of life. */
    static final long PING_MS = 500;

    /** Copies are served for so long after the last sign of life. */
    static final long ALIVE_NS_MAX = 2_000_000_000;

    private static final int WAITING_MAX = 1 << 16;

    /** Nobody waits longer for a reply; values are then read without being kept. */
    private static final long PATIENCE_NS = 200_000_000;

    private static final long TICK_MS = 100;

    private final Endpoint endpoint;
    private final int port;
    private final @Nullable String password;
    private final LocalCache cache;
    private final LongSupplier ticker;
    private final EventLoop loop;
    private final Backoff backoff;
    private final ScheduledFuture<?> pings;
    private final ArrayDeque<CompletableFuture<@Nullable Object>> waiting = new ArrayDeque<>();
    private final AtomicInteger epoch = new AtomicInteger();
    private volatile boolean ready;
    private volatile long alive_ns;

    /** Whether replies are overdue: then nothing can be tracked until one comes. */
    private volatile boolean stuck;

    /** Since when the first of {@link #waiting} has been the first, by the system's clock. */
    private long first_ns;

    private volatile boolean closed;
    private @Nullable Socket socket;

    TrackingConnection(
            Endpoint endpoint,
            int port,
            @Nullable String password,
            LocalCache cache,
            LongSupplier ticker) {
        this.endpoint = endpoint;
        this.port = port;
        this.password = password;
        this.cache = cache;
        this.ticker = ticker;
        this.loop = endpoint.loop();
        this.backoff =
                new Backoff(endpoint.settings().backoffMin(), endpoint.settings().backoffMax());
        pings = loop.scheduleAtFixedRate(this::tick, TICK_MS, TICK_MS, TimeUnit.MILLISECONDS);
        loop.execute(this::connect);
    }

    @Override
    public int epoch() {
        return epoch.get();
    }

    @Override
    public boolean isAlive() {
        return ready && ticker.getAsLong() - alive_ns < ALIVE_NS_MAX;
    }

    CompletionStage<Tracking.@Nullable Ticket> track(byte[] key, int generation) {
        if (!ready || stuck) {
            return CompletableFuture.completedStage(null);
        }
        int asked = epoch.get();
        CompletableFuture<@Nullable Object> reply = new CompletableFuture<>();
        loop.execute(() -> send(reply, "PTTL".getBytes(StandardCharsets.US_ASCII), key));
        return reply.handle(
                (answer, failure) ->
                        answer instanceof Long ttl_ms
                                ? new Tracking.Ticket(this, asked, generation, ttl_ms)
                                : null);
    }

    // On the event loop.

    private void connect() {
        if (closed || endpoint.isClosed()) {
            pings.cancel(false);
            return;
        }
        Socket attempt = new Socket();
        socket = attempt;
        Connector.open(endpoint, loop, attempt, port)
                .whenComplete(
                        (done, failure) -> {
                            if (failure != null) {
                                lost(attempt);
                            }
                        });
    }

    private void opened(Socket which) {
        if (socket != which || closed) {
            which.close();
            return;
        }
        CompletableFuture<@Nullable Object> hello = new CompletableFuture<>();
        CompletableFuture<@Nullable Object> on = new CompletableFuture<>();
        Settings settings = endpoint.settings();
        String same = settings.user();
        if (password != null) {
            send(hello, words("HELLO", "3", "AUTH", "default", password));
        } else if (same != null) {
            send(hello, words("HELLO", "3", "AUTH", same, String.valueOf(settings.password())));
        } else {
            send(hello, words("HELLO", "3"));
        }
        send(on, words("CLIENT", "TRACKING", "ON"));
        on.thenAcceptBoth(
                hello,
                (tracking, greeting) -> {
                    if (greeting instanceof List && "OK".equals(tracking)) {
                        backoff.reset();
                        ready = true;
                    } else {
                        which.close();
                    }
                });
    }

    private static byte[][] words(String... words) {
        byte[][] bytes = new byte[words.length][];
        for (int i = 0; i < words.length; i++) {
            bytes[i] = words[i].getBytes(StandardCharsets.UTF_8);
        }
        return bytes;
    }

    private void send(CompletableFuture<@Nullable Object> reply, byte[]... words) {
        Socket to = socket;
        if (to == null || !to.isOpen() || waiting.size() >= WAITING_MAX) {
            reply.complete(null);
            return;
        }
        if (waiting.isEmpty()) {
            first_ns = System.nanoTime();
        }
        waiting.add(reply);
        ByteBuf request = Unpooled.buffer();
        request.writeCharSequence("*" + words.length + "\r\n", StandardCharsets.US_ASCII);
        for (byte[] word : words) {
            request.writeCharSequence("$" + word.length + "\r\n", StandardCharsets.US_ASCII);
            request.writeBytes(word);
            request.writeCharSequence("\r\n", StandardCharsets.US_ASCII);
        }
        to.write(request);
    }

    private void tick() {
        if (ready && !waiting.isEmpty() && System.nanoTime() - first_ns > PATIENCE_NS) {
            // Their replies may still come, and are counted off then.
            stuck = true;
            waiting.forEach(asked -> asked.complete(null));
        }
        ping();
    }

    private void ping() {
        if (endpoint.isClosed()) {
            close();
            return;
        }
        Socket open = socket;
        if (open == null || !ready) {
            return;
        }
        long silent_ns = ticker.getAsLong() - alive_ns;
        if (silent_ns > ALIVE_NS_MAX) {
            open.close();
            lost(open);
        } else if (silent_ns > PING_MS * 1_000_000 && waiting.isEmpty()) {
            send(new CompletableFuture<>(), words("PING"));
        }
    }

    private void received(Socket from) {
        alive_ns = ticker.getAsLong();
        first_ns = System.nanoTime();
        stuck = false;
        Object message;
        while (socket == from && (message = from.next()) != RespReader.INCOMPLETE) {
            if (message instanceof RespReader.Push push) {
                pushed(push.parts());
            } else {
                CompletableFuture<@Nullable Object> asked = waiting.poll();
                if (asked == null) {
                    throw new CacheException.Protocol("a reply that nobody asked for");
                }
                asked.complete(message);
            }
        }
    }

    /** A null in place of the keys means all of them; then the server has forgotten them too. */
    private void pushed(List<@Nullable Object> parts) {
        if (parts.isEmpty() || !"invalidate".equals(parts.get(0))) {
            return;
        }
        Object keys = parts.size() < 2 ? null : parts.get(1);
        if (keys instanceof List<?> list) {
            for (Object key : list) {
                cache.invalidated(String.valueOf(key));
            }
        } else {
            nextEpoch();
        }
    }

    private void nextEpoch() {
        epoch.incrementAndGet();
        cache.forgetAll();
    }

    private void lost(Socket which) {
        if (socket != which) {
            return;
        }
        socket = null;
        ready = false;
        stuck = false;
        nextEpoch();
        CompletableFuture<@Nullable Object> asked;
        while ((asked = waiting.poll()) != null) {
            asked.complete(null);
        }
        if (!closed) {
            loop.schedule(this::connect, backoff.next_ms(), TimeUnit.MILLISECONDS);
        }
    }

    void close() {
        closed = true;
        pings.cancel(false);
        loop.execute(
                () -> {
                    Socket open = socket;
                    if (open != null) {
                        open.close();
                        lost(open);
                    }
                });
    }

    /** One socket. */
    private final class Socket extends ChannelInboundHandlerAdapter {
        private final In in = new In();
        private final RespReader reader = new RespReader(in);
        private @Nullable ChannelHandlerContext context;

        boolean isOpen() {
            ChannelHandlerContext open = context;
            return open != null && open.channel().isActive();
        }

        void write(ByteBuf request) {
            ChannelHandlerContext open = context;
            if (open != null) {
                open.writeAndFlush(request, open.voidPromise());
            }
        }

        void close() {
            ChannelHandlerContext open = context;
            if (open != null) {
                open.close();
            }
        }

        @Nullable Object next() {
            return reader.next();
        }

        @Override
        public void channelActive(ChannelHandlerContext active) {
            context = active;
            alive_ns = ticker.getAsLong();
            opened(this);
        }

        @Override
        public void channelRead(ChannelHandlerContext from, Object message) {
            ByteBuf bytes = (ByteBuf) message;
            try {
                int count = bytes.readableBytes();
                in.space(count);
                bytes.readBytes(in.array(), in.end(), count);
                in.received(count);
            } finally {
                bytes.release();
            }
            try {
                received(this);
            } catch (RuntimeException e) {
                close();
                lost(this);
            }
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext from, Throwable failure) {
            from.close();
        }

        @Override
        public void channelInactive(ChannelHandlerContext from) {
            lost(this);
        }
    }
}
