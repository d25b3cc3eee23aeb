package cellar.client.testing;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What lies between one client and one server, and can be cut. */
public final class Cable implements AutoCloseable {
    /** What becomes of connections. */
    public enum State {
        /** They work. */
        WHOLE,
        /** They are closed at once. */
        CLOSED,
        /** They stay open, and nothing passes. */
        SILENT
    }

    private static final int CHUNK_BYTES = 1 << 14;

    private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private final int target;
    private volatile State state = State.WHOLE;

    /** Leads to {@code target}. */
    public Cable(int target) throws IOException {
        this.target = target;
        run(this::accept);
    }

    private static void run(Runnable task) {
        Thread thread = new Thread(task, "cable");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket near = door.accept();
                sockets.add(near);
                run(() -> connect(near));
            }
        } catch (IOException e) {
            // The door was closed: the end.
            return;
        }
    }

    private void connect(Socket near) {
        if (state != State.WHOLE) {
            // A silent cable leaves the connection to its client's patience.
            if (state == State.CLOSED) {
                end(near);
            }
            return;
        }
        try {
            Socket far = new Socket(InetAddress.getLoopbackAddress(), target);
            sockets.add(far);
            near.setTcpNoDelay(true);
            far.setTcpNoDelay(true);
            run(() -> pass(near, far));
            pass(far, near);
        } catch (IOException e) {
            end(near);
        }
    }

    private void pass(Socket from, Socket to) {
        byte[] chunk = new byte[CHUNK_BYTES];
        try {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int count = in.read(chunk); count > 0; count = in.read(chunk)) {
                if (state == State.WHOLE) {
                    out.write(chunk, 0, count);
                }
            }
        } catch (IOException e) {
            // One side has ended, so the other does.
            end(from);
        }
        end(from);
        end(to);
    }

    private void end(Socket socket) {
        sockets.remove(socket);
        try {
            socket.close();
        } catch (IOException e) {
            // It was to be closed.
            return;
        }
    }

    /** Where it begins. */
    public int port() {
        return door.getLocalPort();
    }

    /** From now on; connections that were silent have lost what they carried, so they end. */
    public void become(State next) {
        State before = state;
        state = next;
        if (next == State.CLOSED || before == State.SILENT) {
            sockets.forEach(this::end);
        }
    }

    @Override
    public void close() {
        state = State.CLOSED;
        try {
            door.close();
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        sockets.forEach(this::end);
    }
}
