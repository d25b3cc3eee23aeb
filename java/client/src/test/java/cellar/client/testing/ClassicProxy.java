package cellar.client.testing;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** Passes bytes on to a memcached, but says that it is version 1.4.39. */
public final class ClassicProxy implements AutoCloseable {
    private static final byte[] ASKED = "version\r\n".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] SAID = "VERSION 1.4.39\r\n".getBytes(StandardCharsets.US_ASCII);

    private final ServerSocket door;
    private final int target;
    private volatile boolean meta;

    /** Passes on to this port. */
    public ClassicProxy(int target) throws IOException {
        this.target = target;
        this.door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        run(this::accept);
    }

    private static void run(Runnable task) {
        Thread thread = new Thread(task, "classic-proxy");
        thread.setDaemon(true);
        thread.start();
    }

    /** Where it listens. */
    public int port() {
        return door.getLocalPort();
    }

    /** Whether a meta command came. */
    public boolean sawMeta() {
        return meta;
    }

    private void accept() {
        try {
            while (true) {
                Socket client = door.accept();
                run(() -> serve(client));
            }
        } catch (IOException e) {
            // The door was closed: the end.
            return;
        }
    }

    private void serve(Socket client) {
        try (client;
                Socket server = new Socket(InetAddress.getLoopbackAddress(), target)) {
            client.setTcpNoDelay(true);
            server.setTcpNoDelay(true);
            byte[] asked = client.getInputStream().readNBytes(ASKED.length);
            if (java.util.Arrays.equals(asked, ASKED)) {
                client.getOutputStream().write(SAID);
            } else {
                server.getOutputStream().write(asked);
            }
            run(() -> copy(server, client, false));
            copy(client, server, true);
        } catch (IOException e) {
            // One side has gone; the other is closed above.
            return;
        }
    }

    private void copy(Socket from, Socket to, boolean watch) {
        byte[] buffer = new byte[1 << 16];
        try {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
                if (watch && count > 3 && buffer[0] == 'm' && buffer[2] == ' ') {
                    meta = true;
                }
                out.write(buffer, 0, count);
            }
            to.shutdownOutput();
        } catch (IOException e) {
            // The other direction ends by itself.
            return;
        }
    }

    @Override
    public void close() throws IOException {
        door.close();
    }
}
