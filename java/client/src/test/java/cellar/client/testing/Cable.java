package cellar.client.testing;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.util.Arrays;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/** A proxy between a client and one port of a server; it can cut connections and change data. */
public final class Cable implements AutoCloseable {
    /** The state of its connections. */
    public enum State {
        /** They work. */
        WHOLE,
        /** They are closed at once. */
        CLOSED,
        /** They stay open, but lose all data. */
        SILENT,
        /** They stay open, and delay all data until the cable is whole again. */
        HELD
    }

    /** The data of one connection, as it arrives, in pieces that may begin and end anywhere. */
    public interface Filter {
        /** Changes data on the way to the server. */
        default byte[] sent(byte[] bytes) {
            return bytes;
        }

        /** Changes data on the way to the client. */
        default byte[] answered(byte[] bytes) {
            return bytes;
        }
    }

    private static final int CHUNK_BYTES = 1 << 14;

    private final Listener listener;
    private final Object changed = new Object();
    private final int target;
    private final Supplier<Filter> filters;
    private volatile State state = State.WHOLE;

    /** Leads to the port {@code target}. */
    public Cable(int target) throws IOException {
        this(target, () -> new Filter() {});
    }

    /** Leads to the port {@code target}, with a filter for each connection. */
    public Cable(int target, Supplier<Filter> filters) throws IOException {
        this.target = target;
        this.filters = filters;
        listener = new Listener("cable", this::connect);
    }

    private void connect(Socket near) throws IOException {
        switch (state) {
            case CLOSED -> {}
            // The client's time-out ends the connection.
            case SILENT -> near.getInputStream().transferTo(OutputStream.nullOutputStream());
            case WHOLE, HELD -> {
                Socket far = listener.connect(target);
                Filter filter = filters.get();
                listener.run(() -> pass(near, far, filter::sent));
                pass(far, near, filter::answered);
            }
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
            // One side has ended, so the other does too.
            return;
        } finally {
            listener.end(from);
            listener.end(to);
        }
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

    /** Returns the port for clients. */
    public int port() {
        return listener.port();
    }

    /** Sets the state; connections that were silent have lost data, so they are closed. */
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

    /** Closes all current connections. */
    public void cut() {
        listener.cut();
    }

    @Override
    public void close() {
        listener.close();
        become(State.CLOSED);
    }
}
