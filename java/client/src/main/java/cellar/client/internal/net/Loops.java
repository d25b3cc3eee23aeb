package cellar.client.internal.net;

import io.netty.channel.Channel;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.epoll.Epoll;
import io.netty.channel.epoll.EpollDomainSocketChannel;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioDomainSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.channel.unix.DomainSocketAddress;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.file.Path;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The threads of a client's asynchronous connections, and the type of their sockets.
 *
 * <p>Uses only what both Netty 4.1 and 4.2 have, so that an application may use either.
 */
public final class Loops implements AutoCloseable {
    /** How sockets are polled. */
    public enum Transport {
        /** epoll if its native library can be loaded, otherwise the JDK's selector. */
        AUTO,
        /** Linux epoll. */
        EPOLL,
        /** Linux io_uring. */
        IO_URING,
        /** The JDK's selector. */
        NIO
    }

    private final EventLoopGroup group;
    private final Transport chosen;

    /**
     * Starts {@code threads} threads.
     *
     * @throws IllegalStateException if the selected transport is not available
     */
    public Loops(Transport transport, int threads) {
        chosen = transport == Transport.AUTO ? best() : transport;
        ThreadFactory factory = new DefaultThreadFactory("cellar-client", true);
        group = group(chosen, threads, factory);
    }

    private static Transport best() {
        return Epoll.isAvailable() ? Transport.EPOLL : Transport.NIO;
    }

    @SuppressWarnings("deprecation") // The replacement of these groups is not in Netty 4.1.
    private static EventLoopGroup group(Transport transport, int threads, ThreadFactory factory) {
        switch (transport) {
            case EPOLL:
                require(Epoll.isAvailable(), Epoll.unavailabilityCause());
                return new EpollEventLoopGroup(threads, factory);
            case IO_URING:
                return uring(threads, factory);
            default:
                return new NioEventLoopGroup(threads, factory);
        }
    }

    private static EventLoopGroup uring(int threads, ThreadFactory factory) {
        try {
            return Uring.group(threads, factory);
        } catch (LinkageError e) {
            throw new IllegalStateException(
                    "io_uring needs Netty 4.2 and io.netty:netty-transport-native-io_uring"
                            + " on the class path",
                    e);
        }
    }

    static void require(boolean available, @Nullable Throwable cause) {
        if (!available) {
            throw new IllegalStateException("this transport is not available here", cause);
        }
    }

    /** Returns the thread for the next connection. */
    public EventLoop next() {
        return group.next();
    }

    /** Returns the class of TCP sockets. */
    public Class<? extends Channel> channel() {
        return switch (chosen) {
            case EPOLL -> EpollSocketChannel.class;
            case IO_URING -> Uring.channel();
            default -> NioSocketChannel.class;
        };
    }

    /** Returns the class of UNIX sockets. */
    public Class<? extends Channel> fileChannel() {
        return switch (chosen) {
            case EPOLL -> EpollDomainSocketChannel.class;
            case IO_URING -> Uring.fileChannel();
            default -> NioDomainSocketChannel.class;
        };
    }

    /** Returns the address of a UNIX socket for this transport. */
    public SocketAddress address(Path file) {
        return chosen == Transport.NIO
                ? UnixDomainSocketAddress.of(file)
                : new DomainSocketAddress(file.toFile());
    }

    @Override
    public void close() {
        group.shutdownGracefully(0, 2, TimeUnit.SECONDS);
    }
}
