package cellar.client.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * Changes keys of a cluster in etcd directly at the nodes, without a cable.
 *
 * <p>It sends a change until it is answered. A node that was stopped rejects the requests that it
 * finds later, because other nodes own its slots by then. A change is not sent again to a node that
 * has not answered it: the node may only be busy, and would execute it after a later change.
 */
public final class DirectWriter implements AutoCloseable {
    private static final int TIMEOUT_MS = 300;
    private static final long PAUSE_MS = 20;

    /** A connection. Its node executes and answers changes in the order in which they were sent. */
    private static final class Wire {
        final Socket socket;
        final BufferedReader answers;

        /** The number of missing answers. */
        private int owed;

        /** The number of the last change that was sent. */
        private int asked;

        Wire(Socket socket) throws IOException {
            this.socket = socket;
            answers =
                    new BufferedReader(
                            new InputStreamReader(
                                    socket.getInputStream(), StandardCharsets.US_ASCII));
        }
    }

    private final EtcdNodes nodes;
    private final Map<Integer, Wire> wires = new HashMap<>();

    /** The announced port of the node to use next. */
    private int announced;

    private int turn;

    /** The number of the current change. */
    private int change;

    /** Writes to these nodes. */
    public DirectWriter(EtcdNodes nodes) {
        this.nodes = nodes;
        announced = nodes.node(0).port();
    }

    /**
     * Changes one key with a command without spaces in its words; false if it was lost with a
     * killed node.
     */
    public boolean change(String command) throws InterruptedException {
        change++;
        while (true) {
            String answer;
            try {
                answer = ask(command);
            } catch (SocketTimeoutException e) {
                turnElsewhere();
                continue;
            } catch (IOException e) {
                drop();
                turnElsewhere();
                // paced: a node that cannot serve yet is retried after a pause.
                Thread.sleep(PAUSE_MS);
                return false;
            }
            if (answer.startsWith("-MOVED ")) {
                announced = Integer.parseInt(answer.substring(answer.lastIndexOf(':') + 1));
            } else if (answer.startsWith("-CLUSTERDOWN")) {
                turnElsewhere();
                // paced: a node that cannot serve yet is retried after a pause.
                Thread.sleep(PAUSE_MS);
            } else if (answer.startsWith("-")) {
                throw new IllegalStateException(answer);
            } else {
                return true;
            }
        }
    }

    private String ask(String command) throws IOException {
        Wire wire = wires.get(announced);
        if (wire == null) {
            int port = nodes.behind(announced);
            Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
            socket.setSoTimeout(TIMEOUT_MS);
            socket.setTcpNoDelay(true);
            wire = new Wire(socket);
            wires.put(announced, wire);
        }
        if (wire.owed == 0 || wire.asked != change) {
            byte[] request = (command + "\r\n").getBytes(StandardCharsets.US_ASCII);
            wire.socket.getOutputStream().write(request);
            wire.asked = change;
            wire.owed++;
        }
        String answer = "";
        while (wire.owed > 0) {
            answer = wire.answers.readLine();
            if (answer == null) {
                throw new IOException("the connection has ended");
            }
            wire.owed--;
        }
        return answer;
    }

    /** Uses a new connection to this node next time. */
    private void drop() {
        Wire wire = wires.remove(announced);
        if (wire != null) {
            end(wire);
        }
    }

    /** Uses another node next. */
    private void turnElsewhere() {
        turn = (turn + 1) % 3;
        announced = nodes.node(turn).port();
    }

    private static void end(Wire wire) {
        try {
            wire.socket.close();
        } catch (IOException e) {
            // The connection is closed in any case.
        }
    }

    @Override
    public void close() {
        wires.values().forEach(DirectWriter::end);
    }
}
