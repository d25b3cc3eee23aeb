package cellar.client.internal.net;

import cellar.client.CacheException;
import cellar.client.internal.wire.In;
import cellar.client.internal.wire.Link;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.handler.ssl.SslHandler;
import io.netty.handler.ssl.SslHandshakeCompletionEvent;
import org.jspecify.annotations.Nullable;

/** One socket of a {@link Pipe}: passes on Netty's events. */
final class PipeHandler extends ChannelInboundHandlerAdapter {
    private final Pipe pipe;
    private final In in = new In();
    private final Link link = new Link();
    private @Nullable Throwable cause;
    private @Nullable ChannelHandlerContext context;

    PipeHandler(Pipe pipe) {
        this.pipe = pipe;
    }

    In in() {
        return in;
    }

    /** Returns the identity of this connection for operations. */
    Link link() {
        return link;
    }

    /** Closes the socket, connected or not. */
    void close() {
        ChannelHandlerContext open = context;
        if (open != null) {
            open.close();
        }
    }

    @Override
    public void handlerAdded(ChannelHandlerContext added) {
        context = added;
    }

    @Override
    public void channelActive(ChannelHandlerContext from) {
        if (from.pipeline().get(SslHandler.class) == null) {
            pipe.opened(this, from.channel());
        }
    }

    @Override
    public void userEventTriggered(ChannelHandlerContext from, Object event) {
        if (event instanceof SslHandshakeCompletionEvent handshake && handshake.isSuccess()) {
            pipe.opened(this, from.channel());
        } else {
            from.fireUserEventTriggered(event);
        }
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
            pipe.received(this);
        } catch (CacheException e) {
            pipe.close(e);
        } catch (RuntimeException e) {
            pipe.close(new CacheException.Protocol("a reply could not be read: " + e));
        }
    }

    @Override
    public void channelWritabilityChanged(ChannelHandlerContext from) {
        pipe.writable();
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext from, Throwable failure) {
        cause = failure;
        from.close();
    }

    @Override
    public void channelInactive(ChannelHandlerContext from) {
        pipe.broken(this, cause);
    }
}
