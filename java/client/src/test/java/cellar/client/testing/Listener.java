package cellar.client.testing;

import cellar.client.Node;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A free port; each connection has a thread, and all can be closed at once. */
final class Listener implements AutoCloseable {
    /** Handles a connection, which is closed when this returns or fails. */
    interface Service {
        /** Serves one connection. */
        void serve(Socket socket) throws IOException;
    }

    private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private final String name;
    private final Service service;

    /** Opens the port; {@code name} is the name of its threads. */
    Listener(String name, Service service) throws IOException {
        this.name = name;
        this.service = service;
        run(this::accept);
    }

    /** Runs a task on a daemon thread. */
    void run(Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket socket = door.accept();
                socket.setTcpNoDelay(true);
                sockets.add(socket);
                if (door.isClosed()) {
                    // Also closes a connection that was accepted while the port was being closed.
                    cut();
                    return;
                }
                run(() -> serve(socket));
            }
        } catch (IOException e) {
            // The port was closed, so this ends.
            return;
        }
    }

    private void serve(Socket socket) {
        try {
            service.serve(socket);
        } catch (IOException e) {
            // The client or the test has closed the connection.
            return;
        } finally {
            end(socket);
        }
    }

    /** Opens a connection to another port of this machine; {@link #cut} closes it too. */
    Socket connect(int port) throws IOException {
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        socket.setTcpNoDelay(true);
        sockets.add(socket);
        return socket;
    }

    /** Closes a connection. */
    void end(Socket socket) {
        sockets.remove(socket);
        try {
            socket.close();
        } catch (IOException e) {
            // The socket is not used any more.
            return;
        }
    }

    /** Returns the port. */
    int port() {
        return door.getLocalPort();
    }

    /** Returns its address for clients. */
    Node node() {
        return Node.of("127.0.0.1", port());
    }

    /** Closes all current connections, not those that replace them. */
    void cut() {
        List.copyOf(sockets).forEach(this::end);
    }

    @Override
    public void close() {
        try {
            door.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        cut();
    }
}
