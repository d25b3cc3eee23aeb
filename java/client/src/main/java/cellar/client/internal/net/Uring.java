package cellar.client.internal.net;

import io.netty.channel.Channel;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.uring.IoUring;
import io.netty.channel.uring.IoUringDomainSocketChannel;
import io.netty.channel.uring.IoUringIoHandler;
import io.netty.channel.uring.IoUringSocketChannel;
import java.util.concurrent.ThreadFactory;

/**
 * io_uring; in a separate class, so that no other class needs classes that Netty 4.1 does not have.
 */
final class Uring {
    private Uring() {}

    /** Starts {@code threads} threads. */
    static EventLoopGroup group(int threads, ThreadFactory factory) {
        Loops.require(IoUring.isAvailable(), IoUring.unavailabilityCause());
        return new MultiThreadIoEventLoopGroup(threads, factory, IoUringIoHandler.newFactory());
    }

    /** Returns the class of TCP sockets. */
    static Class<? extends Channel> channel() {
        return IoUringSocketChannel.class;
    }

    /** Returns the class of UNIX sockets. */
    static Class<? extends Channel> fileChannel() {
        return IoUringDomainSocketChannel.class;
    }
}
