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

/** Greets like memcached 1.6 and then answers each line with whatever a test wants. */
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

    /** Starts. */
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
            // paced: a reply that trickles: one piece after the other.
            Thread.sleep(5);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Where it listens. */
    public Node node() {
        return listener.node();
    }

    /** What every request but a greeting is answered with. */
    public void answer(String text) {
        answer = text;
    }

    /** What requests with this first word are answered with, in place of what all others are. */
    public void answer(String command, String text) {
        answers.put(command, text);
    }

    /** How many bytes are sent at once. */
    public void pieces(int bytes) {
        pieceBytes = bytes;
    }

    /** Whether there is a pause between pieces. */
    public void pauseBetweenPieces(boolean pause) {
        pauses = pause;
    }

    /** Whether the connection is closed behind a reply. */
    public void closeAfterReply(boolean close) {
        closesAfter = close;
    }

    /** Whether the connection is closed in place of a reply. */
    public void closeBeforeReply(boolean close) {
        closesBefore = close;
    }

    /** Whether version and mn are answered. */
    public void greets(boolean yes) {
        greets = yes;
    }

    /** Replies wait for this; null for none. */
    public void beforeReply(CountDownLatch latch) {
        gate = latch;
    }

    /** How many lines came that are no greetings. */
    public int requests() {
        return requests.get();
    }

    /** How many lines came with this first word. */
    public int requests(String command) {
        AtomicInteger count = requestsOf.get(command);
        return count == null ? 0 : count.get();
    }

    /** Closes every connection, as a server does that is restarted. */
    public void closeConnections() {
        listener.cut();
    }

    @Override
    public void close() {
        listener.close();
    }
}
