package cellar.client.internal.net;

import cellar.client.Node;
import cellar.client.internal.wire.In;
import cellar.client.internal.wire.Out;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * A socket on which the calling thread writes and waits. Closing it on another thread ends a wait.
 */
interface Wire extends Closeable {
    /** Limit of bytes for one call of the socket; the JDK copies them to native memory. */
    int CHUNK_BYTES_MAX = 1 << 16;

    /** Sends all of {@code out}. */
    void write(Out out) throws IOException;

    /**
     * Waits for bytes and appends them to {@code in}.
     *
     * @param alone whether no other caller waits for this node, so that the wait may spin
     */
    void read(In in, boolean alone) throws IOException;

    /** Whether the server has not closed the connection; does not wait. */
    boolean isOpen() throws IOException;

    /** Connects to {@code node}. */
    static Wire open(Node node, Settings settings) throws IOException {
        Path file = node.socketFile();
        if (file != null) {
            return open(file);
        }
        SSLContext tls = settings.tls();
        SocketChannel channel = SocketChannel.open();
        try {
            channel.setOption(StandardSocketOptions.TCP_NODELAY, !settings.nagle());
            channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
            InetSocketAddress address = new InetSocketAddress(node.host(), node.port());
            int timeout_ms = Math.toIntExact(settings.connectTimeout().toMillis());
            channel.socket().connect(address, timeout_ms);
            return tls == null ? new Plain(channel) : encrypt(channel, node, timeout_ms, tls);
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    /** Connects to a UNIX socket, which succeeds or fails at once. */
    private static Wire open(Path file) throws IOException {
        UnixDomainSocketAddress address = UnixDomainSocketAddress.of(file);
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            channel.configureBlocking(false);
            if (!channel.connect(address)) {
                throw new IOException(file + " takes no more connections at this moment");
            }
            channel.configureBlocking(true);
            return new Plain(channel);
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    private static Wire encrypt(SocketChannel channel, Node node, int timeout_ms, SSLContext tls)
            throws IOException {
        SSLSocket socket =
                (SSLSocket)
                        tls.getSocketFactory()
                                .createSocket(channel.socket(), node.host(), node.port(), true);
        SSLParameters parameters = socket.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        socket.setSSLParameters(parameters);
        socket.setSoTimeout(timeout_ms);
        socket.startHandshake();
        socket.setSoTimeout(0);
        return new Encrypted(socket);
    }

    /**
     * A socket without TLS.
     *
     * <p>A server nearby often answers sooner than a sleeping thread would wake. So a read may
     * first spin for a short time if its caller is the only one. {@link Looking} measures whether
     * that helps.
     */
    final class Plain implements Wire {
        private static final long LOOK_NS_MAX = 80_000;

        private final SocketChannel channel;
        private final Looking looking = new Looking();

        /**
         * Space for one read; grows while reads fill it, so that large answers need fewer reads.
         */
        private int room_bytes = 1 << 12;

        private boolean blocking = true;

        Plain(SocketChannel channel) {
            this.channel = channel;
        }

        @Override
        public void write(Out out) throws IOException {
            ByteBuffer bytes = ByteBuffer.wrap(out.bytes(), 0, out.length());
            while (bytes.hasRemaining()) {
                int end = Math.min(out.length(), bytes.position() + CHUNK_BYTES_MAX);
                bytes.limit(end);
                if (channel.write(bytes) == 0) {
                    blocking(true);
                }
                bytes.limit(out.length());
            }
        }

        @Override
        public void read(In in, boolean alone) throws IOException {
            ByteBuffer space = in.space(room_bytes);
            space.limit(Math.min(space.limit(), space.position() + CHUNK_BYTES_MAX));
            int offered_bytes = space.remaining();
            long begin_ns = alone ? System.nanoTime() : 0;
            int count = alone && looking.isOn() ? look(space, begin_ns) : 0;
            if (count == 0) {
                blocking(true);
                count = channel.read(space);
            }
            if (count < 0) {
                throw new EOFException("the server closed the connection");
            }
            if (alone) {
                looking.took(System.nanoTime() - begin_ns);
            }
            in.received(count);
            if (count == offered_bytes) {
                room_bytes = Math.min(2 * room_bytes, CHUNK_BYTES_MAX);
            }
        }

        private int look(ByteBuffer space, long begin_ns) throws IOException {
            blocking(false);
            int count;
            do {
                Thread.onSpinWait();
                count = channel.read(space);
            } while (count == 0 && System.nanoTime() - begin_ns < LOOK_NS_MAX);
            return count;
        }

        private void blocking(boolean wanted) throws IOException {
            if (blocking != wanted) {
                channel.configureBlocking(wanted);
                blocking = wanted;
            }
        }

        @Override
        public boolean isOpen() throws IOException {
            blocking(false);
            return channel.read(ByteBuffer.allocate(1)) == 0;
        }

        @Override
        public void close() throws IOException {
            channel.close();
        }
    }

    /** A socket with TLS. */
    final class Encrypted implements Wire {
        private final SSLSocket socket;
        private final InputStream input;

        Encrypted(SSLSocket socket) throws IOException {
            this.socket = socket;
            this.input = socket.getInputStream();
        }

        @Override
        public void write(Out out) throws IOException {
            socket.getOutputStream().write(out.bytes(), 0, out.length());
        }

        @Override
        public void read(In in, boolean alone) throws IOException {
            in.space(1 << 12);
            int room = Math.min(in.array().length - in.end(), CHUNK_BYTES_MAX);
            int count = input.read(in.array(), in.end(), room);
            if (count < 0) {
                throw new EOFException("the server closed the connection");
            }
            in.received(count);
        }

        @Override
        public boolean isOpen() {
            return !socket.isClosed() && !socket.isInputShutdown();
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }
}
