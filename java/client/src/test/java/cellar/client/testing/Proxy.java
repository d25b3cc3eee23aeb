package cellar.client.testing;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Stands between a client and one port of a server; cuts connections, or hands nothing on. */
public final class Proxy implements AutoCloseable {
    private static final int CHUNK_BYTES = 1 << 14;

    private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final Object gate = new Object();
    private final int target;
    private boolean silent;

    /** Hands everything on to {@code target}. */
    public Proxy(int target) throws IOException {
        this.target = target;
        run(this::accept);
    }

    private static void run(Runnable task) {
        Thread thread = new Thread(task, "proxy");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!door.isClosed()) {
            try {
                Socket near = door.accept();
                sockets.add(near);
                Socket far = new Socket(InetAddress.getLoopbackAddress(), target);
                sockets.add(far);
                near.setTcpNoDelay(true);
                far.setTcpNoDelay(true);
                run(() -> pump(near, far));
                run(() -> pump(far, near));
            } catch (IOException e) {
                // The server is away, or this is the end: whoever connects sees its socket closed.
                cut();
            }
        }
    }

    private void pump(Socket from, Socket to) {
        byte[] chunk = new byte[CHUNK_BYTES];
        try (from;
                to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int count = in.read(chunk); count >= 0; count = in.read(chunk)) {
                untilHeard();
                out.write(chunk, 0, count);
            }
        } catch (IOException e) {
            // One of the two has gone; the other goes too.
            return;
        } finally {
            sockets.remove(from);
            sockets.remove(to);
        }
    }

    private void untilHeard() throws IOException {
        synchronized (gate) {
            while (silent) {
                try {
                    gate.wait();
                } catch (InterruptedException e) {
                    throw new IOException(e);
                }
            }
        }
    }

    /** Where it listens. */
    public int port() {
        return door.getLocalPort();
    }

    /** Keeps connections open and hands nothing on, until it is called again. */
    public void silence(boolean wanted) {
        synchronized (gate) {
            silent = wanted;
            gate.notifyAll();
        }
    }

    /** Closes all connections. */
    public void cut() {
        for (Socket socket : sockets) {
            sockets.remove(socket);
            try {
                socket.close();
            } catch (IOException e) {
                // It was to be closed.
                continue;
            }
        }
    }

    @Override
    public void close() throws IOException {
        door.close();
        silence(false);
        cut();
    }
}
