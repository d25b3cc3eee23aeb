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

/** A free port whose connections are served by a thread each and can all be cut. */
final class Listener implements AutoCloseable {
    /** What is done with a connection; it is closed when this returns or fails. */
    interface Service {
        /** Serves one connection. */
        void serve(Socket socket) throws IOException;
    }

    private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private final String name;
    private final Service service;

    /** Opens the port; {@code name} is that of the threads. */
    Listener(String name, Service service) throws IOException {
        this.name = name;
        this.service = service;
        run(this::accept);
    }

    /** Does something beside, on a thread that keeps no process alive. */
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
                    // Who came while it was being closed finds nobody either.
                    cut();
                    return;
                }
                run(() -> serve(socket));
            }
        } catch (IOException e) {
            // The door was closed: the end.
            return;
        }
    }

    private void serve(Socket socket) {
        try {
            service.serve(socket);
        } catch (IOException e) {
            // The client or the test has closed it.
            return;
        } finally {
            end(socket);
        }
    }

    /** Opens a connection to another port of this machine, which is cut with all others. */
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
            // It was to be closed.
            return;
        }
    }

    /** Where it listens. */
    int port() {
        return door.getLocalPort();
    }

    /** The same as a client names it. */
    Node node() {
        return Node.of("127.0.0.1", port());
    }

    /** Closes all connections that there are, none of those that are opened in their place. */
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
