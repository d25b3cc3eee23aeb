package cellar.client.internal.net;

import io.netty.channel.Channel;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.uring.IoUring;
import io.netty.channel.uring.IoUringDomainSocketChannel;
import io.netty.channel.uring.IoUringIoHandler;
import io.netty.channel.uring.IoUringSocketChannel;
import java.util.concurrent.ThreadFactory;

/** io_uring; apart, so that nothing else needs classes that Netty 4.1 does not have. */
final class Uring {
    private Uring() {}

    /** Starts {@code threads} threads. */
    static EventLoopGroup group(int threads, ThreadFactory factory) {
        Loops.require(IoUring.isAvailable(), IoUring.unavailabilityCause());
        return new MultiThreadIoEventLoopGroup(threads, factory, IoUringIoHandler.newFactory());
    }

    /** The class of sockets. */
    static Class<? extends Channel> channel() {
        return IoUringSocketChannel.class;
    }

    /** The class of sockets that are connected to files. */
    static Class<? extends Channel> fileChannel() {
        return IoUringDomainSocketChannel.class;
    }
}
