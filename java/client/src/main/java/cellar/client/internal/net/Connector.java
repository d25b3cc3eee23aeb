package cellar.client.internal.net;

import cellar.client.Node;
import io.netty.bootstrap.Bootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoop;
import io.netty.handler.ssl.SslHandler;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import org.jspecify.annotations.Nullable;

/** Opens asynchronous sockets; resolves names on another thread, so the event loop never waits. */
public final class Connector {
    private Connector() {}

    /**
     * Opens a socket for {@code handler}. Completes on the event loop, normally when it is
     * connected. The caller closes it if that takes too long.
     */
    static CompletableFuture<@Nullable Void> open(
            Endpoint endpoint, EventLoop loop, ChannelHandler handler) {
        return open(endpoint, loop, handler, endpoint.node().port(), 0);
    }

    /**
     * Opens a socket to another port of the node, with the connect time-out. A node on a Unix
     * domain socket has no other port, so this connects to the same socket.
     */
    public static CompletableFuture<@Nullable Void> open(
            Endpoint endpoint, EventLoop loop, ChannelHandler handler, int port) {
        int timeout_ms = Math.toIntExact(endpoint.settings().connectTimeout().toMillis());
        return open(endpoint, loop, handler, port, timeout_ms);
    }

    /** Opens a socket; {@code timeout_ms} 0 means no limit. */
    private static CompletableFuture<@Nullable Void> open(
            Endpoint endpoint, EventLoop loop, ChannelHandler handler, int port, int timeout_ms) {
        CompletableFuture<@Nullable Void> done = new CompletableFuture<>();
        CompletableFuture.supplyAsync(() -> address(endpoint, port))
                .whenCompleteAsync(
                        (address, failure) -> {
                            if (failure != null) {
                                done.completeExceptionally(failure);
                                return;
                            }
                            bootstrap(endpoint, loop, handler, timeout_ms)
                                    .connect(address)
                                    .addListener(
                                            (ChannelFuture opened) -> {
                                                if (opened.isSuccess()) {
                                                    done.complete(null);
                                                } else {
                                                    done.completeExceptionally(opened.cause());
                                                }
                                            });
                        },
                        loop);
        return done;
    }

    private static SocketAddress address(Endpoint endpoint, int port) {
        Node node = endpoint.node();
        Path file = node.socketFile();
        if (file != null) {
            return endpoint.loops().address(file);
        }
        try {
            return new InetSocketAddress(InetAddress.getByName(node.host()), port);
        } catch (UnknownHostException e) {
            throw new CompletionException(e);
        }
    }

    private static Bootstrap bootstrap(
            Endpoint endpoint, EventLoop loop, ChannelHandler handler, int timeout_ms) {
        Bootstrap bootstrap =
                new Bootstrap()
                        .group(loop)
                        .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, timeout_ms);
        if (endpoint.node().socketFile() != null) {
            return bootstrap.channel(endpoint.loops().fileChannel()).handler(handler);
        }
        return bootstrap
                .channel(endpoint.loops().channel())
                .option(ChannelOption.TCP_NODELAY, !endpoint.settings().nagle())
                .option(ChannelOption.SO_KEEPALIVE, true)
                .handler(
                        new ChannelInitializer<Channel>() {
                            @Override
                            protected void initChannel(Channel channel) {
                                SSLContext tls = endpoint.settings().tls();
                                if (tls != null) {
                                    SSLEngine engine = engine(tls, endpoint.node());
                                    SslHandler encryption = new SslHandler(engine);
                                    encryption.setHandshakeTimeoutMillis(timeout_ms);
                                    channel.pipeline().addLast(encryption);
                                }
                                channel.pipeline().addLast(handler);
                            }
                        });
    }

    private static SSLEngine engine(SSLContext tls, Node node) {
        SSLEngine engine = tls.createSSLEngine(node.host(), node.port());
        engine.setUseClientMode(true);
        SSLParameters parameters = engine.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        engine.setSSLParameters(parameters);
        return engine;
    }
}
