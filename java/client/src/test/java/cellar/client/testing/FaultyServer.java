package cellar.client.testing;

import cellar.client.Node;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/** Answers the handshake like memcached 1.6, and all other lines as the test sets. */
public final class FaultyServer implements AutoCloseable {
    private final Listener listener;
    private final AtomicInteger requests = new AtomicInteger();
    private final Map<String, AtomicInteger> requestsOf = new ConcurrentHashMap<>();
    private final Map<String, String> answers = new ConcurrentHashMap<>();
    private volatile String answer = "EN\r\n";
    private volatile int pieceBytes = 1 << 20;
    private volatile boolean pauses;
    private volatile boolean closesAfter;
    private volatile boolean closesBefore;
    private volatile boolean greets = true;
    private volatile CountDownLatch gate;

    /** Starts the server. */
    public FaultyServer() throws IOException {
        listener = new Listener("faulty-server", this::serve);
    }

    private void serve(Socket socket) throws IOException {
        BufferedReader lines =
                new BufferedReader(
                        new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (!reply(line, socket.getOutputStream())) {
                return;
            }
        }
    }

    private boolean reply(String line, OutputStream out) throws IOException {
        if (line.equals("version") || line.equals("mn")) {
            if (greets) {
                String greeting = line.equals("mn") ? "MN\r\n" : "VERSION 1.6.18\r\n";
                out.write(greeting.getBytes(StandardCharsets.US_ASCII));
            }
            return true;
        }
        String command = line.split(" ", 2)[0];
        byte[] bytes = answers.getOrDefault(command, answer).getBytes(StandardCharsets.US_ASCII);
        requests.incrementAndGet();
        requestsOf.computeIfAbsent(command, name -> new AtomicInteger()).incrementAndGet();
        CountDownLatch wait = gate;
        if (wait != null) {
            try {
                wait.await();
            } catch (InterruptedException e) {
                return false;
            }
        }
        if (closesBefore) {
            return false;
        }
        if (line.startsWith("ms ")) {
            return true;
        }
        for (int at = 0; at < bytes.length; at += pieceBytes) {
            out.write(bytes, at, Math.min(pieceBytes, bytes.length - at));
            if (pauses) {
                pause();
            }
        }
        return !closesAfter;
    }

    private static void pause() {
        try {
            // paced: a slow reply: one piece after the other.
            Thread.sleep(5);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns its address. */
    public Node node() {
        return listener.node();
    }

    /** Sets the answer to all requests except the handshake. */
    public void answer(String text) {
        answer = text;
    }

    /** Sets the answer to requests with this first word. */
    public void answer(String command, String text) {
        answers.put(command, text);
    }

    /** Sets how many bytes are sent at once. */
    public void pieces(int bytes) {
        pieceBytes = bytes;
    }

    /** Sets whether there is a pause between pieces. */
    public void pauseBetweenPieces(boolean pause) {
        pauses = pause;
    }

    /** Sets whether the connection is closed after a reply. */
    public void closeAfterReply(boolean close) {
        closesAfter = close;
    }

    /** Sets whether the connection is closed instead of a reply. */
    public void closeBeforeReply(boolean close) {
        closesBefore = close;
    }

    /** Sets whether version and mn are answered. */
    public void greets(boolean yes) {
        greets = yes;
    }

    /** Sets a latch that replies wait for; null for none. */
    public void beforeReply(CountDownLatch latch) {
        gate = latch;
    }

    /** Returns the number of lines received, without the handshake. */
    public int requests() {
        return requests.get();
    }

    /** Returns the number of lines received with this first word. */
    public int requests(String command) {
        AtomicInteger count = requestsOf.get(command);
        return count == null ? 0 : count.get();
    }

    /** Closes all connections, as a restarting server does. */
    public void closeConnections() {
        listener.cut();
    }

    @Override
    public void close() {
        listener.close();
    }
}
