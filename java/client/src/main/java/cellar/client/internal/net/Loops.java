package cellar.client.internal.net;

import io.netty.channel.Channel;
import io.netty.channel.EventLoop;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.epoll.Epoll;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.channel.uring.IoUring;
import io.netty.channel.uring.IoUringIoHandler;
import io.netty.channel.uring.IoUringSocketChannel;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.concurrent.TimeUnit;

/** The threads of a client's asynchronous connections, and the kind of their sockets. */
public final class Loops implements AutoCloseable {
    /** How sockets are polled. */
    public enum Transport {
        /** epoll where its native part can be loaded, else the JDK's own. */
        AUTO,
        /** Linux epoll. */
        EPOLL,
        /** Linux io_uring. */
        IO_URING,
        /** The JDK's selector, everywhere. */
        NIO
    }

    private final MultiThreadIoEventLoopGroup group;
    private final Class<? extends Channel> channel;

    /**
     * Starts {@code threads} threads.
     *
     * @throws IllegalStateException if the transport is named and not available
     */
    public Loops(Transport transport, int threads) {
        Transport chosen = transport == Transport.AUTO ? best() : transport;
        group =
                new MultiThreadIoEventLoopGroup(
                        threads, new DefaultThreadFactory("cellar-client", true), factory(chosen));
        channel =
                switch (chosen) {
                    case EPOLL -> EpollSocketChannel.class;
                    case IO_URING -> IoUringSocketChannel.class;
                    default -> NioSocketChannel.class;
                };
    }

    private static Transport best() {
        return Epoll.isAvailable() ? Transport.EPOLL : Transport.NIO;
    }

    private static IoHandlerFactory factory(Transport transport) {
        switch (transport) {
            case EPOLL:
                require(Epoll.isAvailable(), Epoll.unavailabilityCause());
                return EpollIoHandler.newFactory();
            case IO_URING:
                require(IoUring.isAvailable(), IoUring.unavailabilityCause());
                return IoUringIoHandler.newFactory();
            default:
                return NioIoHandler.newFactory();
        }
    }

    private static void require(boolean available, Throwable cause) {
        if (!available) {
            throw new IllegalStateException("this transport is not available here", cause);
        }
    }

    /** The thread for the next connection. */
    public EventLoop next() {
        return group.next();
    }

    /** The class of sockets. */
    public Class<? extends Channel> channel() {
        return channel;
    }

    @Override
    public void close() {
        group.shutdownGracefully(0, 2, TimeUnit.SECONDS);
    }
}
