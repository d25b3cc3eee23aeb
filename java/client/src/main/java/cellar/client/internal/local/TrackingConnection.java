package cellar.client.internal.local;

import cellar.client.CacheException;
import cellar.client.internal.Core;
import cellar.client.internal.cluster.Cluster;
import cellar.client.internal.net.Backoff;
import cellar.client.internal.net.Connector;
import cellar.client.internal.net.Endpoint;
import cellar.client.internal.net.Settings;
import cellar.client.internal.wire.In;
import cellar.client.internal.wire.RespReader;
import cellar.client.internal.wire.SlotsOperation;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.EventLoop;
import io.netty.util.concurrent.ScheduledFuture;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The RESP3 connection on which one server sends invalidations.
 *
 * <p>To track a key, the client reads its remaining TTL ({@code PTTL}), which the server counts as
 * a read. It reads the value after this reply, so the server reports every later change. Any event
 * that may have lost an invalidation (a broken connection, silence, a flush) starts a new epoch,
 * which ends all copies of the old one at once. A Cellar server that has lost slots of a cluster
 * reports which.
 */
final class TrackingConnection implements Tracking.Source {
    /** After this long without a reply the connection sends a {@code PING}. */
    static final long PING_MS = 500;

    /** Copies are returned for this long after the last answered request was sent. */
    static final long ALIVE_NS_MAX = 2_000_000_000;

    private static final int WAITING_MAX = 1 << 16;

    /** The capability for, and the name of, the push message of slots that a node has lost. */
    private static final String LOST_SLOTS = "invalidate-slots";

    /** Longest wait for a reply; after that values are read without being kept. */
    private static final long PATIENCE_NS = 200_000_000;

    private static final long TICK_MS = 100;

    private final Endpoint endpoint;
    private final int port;
    private final @Nullable String password;
    private final LocalCache cache;
    private final Cluster cluster;
    private final LongSupplier ticker;
    private final EventLoop loop;
    private final Backoff backoff;
    private final ScheduledFuture<?> pings;

    /** A request without a reply, and when it was sent, by the cache's clock. */
    private record Asked(CompletableFuture<@Nullable Object> reply, long at_ns) {}

    private final ArrayDeque<Asked> waiting = new ArrayDeque<>();
    private final AtomicInteger epoch = new AtomicInteger();
    private volatile boolean ready;
    private volatile long alive_ns;

    /** Whether replies are overdue; no key can be tracked until one arrives. */
    private volatile boolean stuck;

    /** Since when the first of {@link #waiting} has been the first, by {@link System#nanoTime}. */
    private long first_ns;

    private volatile boolean closed;
    private @Nullable Socket socket;

    TrackingConnection(
            Endpoint endpoint, int port, @Nullable String password, LocalCache cache, Core core) {
        this.endpoint = endpoint;
        this.port = port;
        this.password = password;
        this.cache = cache;
        this.cluster = core.cluster();
        this.ticker = core.ticker();
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

    CompletionStage<Tracking.@Nullable Ticket> track(byte[] key, long stay) {
        if (!ready || stuck) {
            return CompletableFuture.completedStage(null);
        }
        int asked = epoch.get();
        CompletableFuture<@Nullable Object> reply = new CompletableFuture<>();
        loop.execute(() -> send(reply, "PTTL".getBytes(StandardCharsets.US_ASCII), key));
        return reply.handle(
                (answer, failure) ->
                        answer instanceof Long ttl_ms
                                ? new Tracking.Ticket(this, asked, stay, ttl_ms)
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
        if (cluster.hasSlots()) {
            // A server without this capability rejects it, and reports that everything may have
            // changed.
            send(new CompletableFuture<>(), words("CLIENT", "CAPA", LOST_SLOTS));
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
        waiting.add(new Asked(reply, ticker.getAsLong()));
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
            // These replies may still arrive; they are matched with their requests then.
            stuck = true;
            waiting.forEach(asked -> asked.reply.complete(null));
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
        first_ns = System.nanoTime();
        stuck = false;
        Object message;
        while (socket == from && (message = from.next()) != RespReader.INCOMPLETE) {
            if (message instanceof RespReader.Push push) {
                pushed(push.parts());
            } else {
                Asked asked = waiting.poll();
                if (asked == null) {
                    throw new CacheException.Protocol("the server sent a reply without a request");
                }
                // Invalidations sent before this request have arrived; this reply may have been
                // delayed.
                alive_ns = asked.at_ns;
                asked.reply.complete(message);
            }
        }
    }

    /** Null instead of keys means all keys; then the server tracks none of them any more. */
    private void pushed(List<@Nullable Object> parts) {
        if (!parts.isEmpty() && LOST_SLOTS.equals(parts.get(0))) {
            lostSlots(parts.size() < 2 ? null : parts.get(1));
        }
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

    /** Parses the first and last slot of each range; anything else means that all may be lost. */
    private void lostSlots(@Nullable Object said) {
        List<?> numbers = said instanceof List<?> list ? list : List.of(-1L);
        BitSet slots = new BitSet(SlotsOperation.SLOTS);
        for (int i = 0; i < numbers.size(); i += 2) {
            long first = slot(numbers, i);
            long last = slot(numbers, i + 1);
            if (first < 0 || last < first) {
                nextEpoch();
                return;
            }
            slots.set((int) first, (int) last + 1);
        }
        cluster.lost(endpoint, slots);
        cache.voided();
    }

    /** Returns one of the numbers; -1 if it is not a slot. */
    private static long slot(List<?> numbers, int index) {
        Object number = index < numbers.size() ? numbers.get(index) : null;
        return number instanceof Long slot && slot < SlotsOperation.SLOTS ? slot : -1;
    }

    private void nextEpoch() {
        epoch.incrementAndGet();
        cache.voided();
    }

    private void lost(Socket which) {
        if (socket != which) {
            return;
        }
        socket = null;
        ready = false;
        stuck = false;
        nextEpoch();
        Asked asked;
        while ((asked = waiting.poll()) != null) {
            asked.reply.complete(null);
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
