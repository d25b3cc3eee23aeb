package cellar.client.testing;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/** What lies between a client and one port of a server: it can be cut, and change what passes. */
public final class Cable implements AutoCloseable {
    /** What becomes of connections. */
    public enum State {
        /** They work. */
        WHOLE,
        /** They are closed at once. */
        CLOSED,
        /** They stay open, and what they carry is lost. */
        SILENT,
        /** They stay open, and what they carry waits until the cable is whole again. */
        HELD
    }

    /** What passes over one connection, as it comes; a piece may begin and end anywhere. */
    public interface Filter {
        /** On the way to the server. */
        default byte[] sent(byte[] bytes) {
            return bytes;
        }

        /** On the way back. */
        default byte[] answered(byte[] bytes) {
            return bytes;
        }
    }

    private static final int CHUNK_BYTES = 1 << 14;

    private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private final Object changed = new Object();
    private final int target;
    private final Supplier<Filter> filters;
    private volatile State state = State.WHOLE;

    /** Leads to {@code target}. */
    public Cable(int target) throws IOException {
        this(target, () -> new Filter() {});
    }

    /** The same with a filter for each connection. */
    public Cable(int target, Supplier<Filter> filters) throws IOException {
        this.target = target;
        this.filters = filters;
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
        if (state == State.CLOSED) {
            end(near);
        }
        if (state == State.CLOSED || state == State.SILENT) {
            // A silent cable leaves the connection to its client's patience.
            return;
        }
        try {
            Socket far = new Socket(InetAddress.getLoopbackAddress(), target);
            sockets.add(far);
            near.setTcpNoDelay(true);
            far.setTcpNoDelay(true);
            Filter filter = filters.get();
            run(() -> pass(near, far, filter::sent));
            pass(far, near, filter::answered);
        } catch (IOException e) {
            end(near);
        }
    }

    private void pass(Socket from, Socket to, UnaryOperator<byte[]> filter) {
        byte[] chunk = new byte[CHUNK_BYTES];
        try {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int count = in.read(chunk); count > 0; count = in.read(chunk)) {
                if (untilLetGo() == State.WHOLE) {
                    out.write(filter.apply(Arrays.copyOf(chunk, count)));
                }
            }
        } catch (IOException e) {
            // One side has ended, so the other does.
            end(from);
        }
        end(from);
        end(to);
    }

    private State untilLetGo() throws IOException {
        synchronized (changed) {
            while (state == State.HELD) {
                try {
                    changed.wait();
                } catch (InterruptedException e) {
                    throw new IOException(e);
                }
            }
            return state;
        }
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
        State before;
        synchronized (changed) {
            before = state;
            state = next;
            changed.notifyAll();
        }
        if (next == State.CLOSED || before == State.SILENT) {
            cut();
        }
    }

    /** Closes all connections that there are. */
    public void cut() {
        sockets.forEach(this::end);
    }

    @Override
    public void close() {
        try {
            door.close();
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        become(State.CLOSED);
    }
}
