package cellar.client.testing;

import cellar.client.Node;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/**
 * A scripted server: memcached's meta commands on one port, tracking on another, and push messages
 * on request.
 */
public final class FakeCellar implements AutoCloseable {
    private final Listener listener;
    private final Listener respListener;
    private final Map<String, String> items = new ConcurrentHashMap<>();
    private final Set<String> tracked = ConcurrentHashMap.newKeySet();
    private final List<Socket> trackers = new CopyOnWriteArrayList<>();
    private final AtomicInteger reads = new AtomicInteger();
    private final AtomicInteger trackings = new AtomicInteger();
    private volatile Runnable beforeReadReply = () -> {};
    private volatile Runnable afterReadReply = () -> {};
    private volatile Function<String, String> pttlReply = key -> ":-1\r\n";
    private volatile boolean mute;
    private volatile boolean refusesTracking;

    /** Starts without items. */
    public FakeCellar() throws IOException {
        listener = new Listener("fake-cellar", this::serveText);
        respListener = new Listener("fake-cellar", this::serveResp);
    }

    /** Returns the address for the memcached protocol. */
    public Node node() {
        return listener.node();
    }

    /** Returns the port that sends invalidations. */
    public int respPort() {
        return respListener.port();
    }

    /** Returns how many times a value was read from the server. */
    public int reads() {
        return reads.get();
    }

    /** Returns how many connections have enabled tracking. */
    public int trackings() {
        return trackings.get();
    }

    /** Whether a connection tracks {@code key}. */
    public boolean isTracked(String key) {
        return tracked.contains(key);
    }

    /** Runs after a value was looked up and before the reply is sent. */
    public void beforeReadReply(Runnable hook) {
        beforeReadReply = hook;
    }

    /** Runs when the reply has been sent. */
    public void afterReadReply(Runnable hook) {
        afterReadReply = hook;
    }

    /** Sets the reply to PTTL, with any bytes before or after it. */
    public void pttlReply(Function<String, String> reply) {
        pttlReply = reply;
    }

    /** Stops sending on tracking connections, but keeps them open. */
    public void mute(boolean silent) {
        mute = silent;
    }

    /** Answers CLIENT TRACKING with an error. */
    public void refuseTracking() {
        refusesTracking = true;
    }

    /** Changes an item without an invalidation. */
    public void put(String key, String value) {
        items.put(key, value);
    }

    /** Changes an item like another client: connections that track it get an invalidation. */
    public void change(String key, String value) {
        items.put(key, value);
        if (tracked.remove(key)) {
            push(invalidation(key));
        }
    }

    /** Deletes all items, as FLUSHALL does. */
    public void flush() {
        items.clear();
        tracked.clear();
        push(">2\r\n$10\r\ninvalidate\r\n_\r\n");
    }

    /** Returns the invalidation message of {@code key}. */
    public static String invalidation(String key) {
        return ">2\r\n$10\r\ninvalidate\r\n*1\r\n$" + key.length() + "\r\n" + key + "\r\n";
    }

    /** Sends bytes to all tracking connections. */
    public void push(String message) {
        for (Socket tracker : trackers) {
            try {
                synchronized (tracker) {
                    tracker.getOutputStream().write(message.getBytes(StandardCharsets.UTF_8));
                }
            } catch (IOException e) {
                trackers.remove(tracker);
            }
        }
    }

    /** Closes all tracking connections. */
    public void killTracking() throws IOException {
        tracked.clear();
        for (Socket tracker : trackers) {
            trackers.remove(tracker);
            tracker.close();
        }
    }

    private static String line(InputStream in) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        int c;
        while ((c = in.read()) != '\n') {
            if (c < 0) {
                throw new IOException("closed");
            }
            line.write(c);
        }
        return line.toString(StandardCharsets.UTF_8).strip();
    }

    private void serveText(Socket socket) throws IOException {
        InputStream in = new BufferedInputStream(socket.getInputStream());
        while (true) {
            String[] words = line(in).split(" ");
            String answer = text(words, in);
            // Chosen first: when the client has the reply, the test may set another hook for the
            // next one.
            Runnable after = words[0].equals("mg") ? afterReadReply : () -> {};
            socket.getOutputStream().write(answer.getBytes(StandardCharsets.UTF_8));
            after.run();
        }
    }

    private String text(String[] words, InputStream in) throws IOException {
        switch (words[0]) {
            case "version":
                return "VERSION 1.6.45-cellar-fake\r\n";
            case "mn":
                return "MN\r\n";
            case "mg":
                reads.incrementAndGet();
                String value = items.get(words[1]);
                beforeReadReply.run();
                return value == null
                        ? "EN\r\n"
                        : "VA " + value.length() + " f0 t-1 c7\r\n" + value + "\r\n";
            case "ms":
                byte[] bytes = in.readNBytes(Integer.parseInt(words[2]));
                in.readNBytes(2);
                change(words[1], new String(bytes, StandardCharsets.UTF_8));
                return "HD\r\n";
            default:
                return "ERROR\r\n";
        }
    }

    private void serveResp(Socket socket) throws IOException {
        InputStream in = new BufferedInputStream(socket.getInputStream());
        while (true) {
            int count = Integer.parseInt(line(in).substring(1));
            List<String> words = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                int length = Integer.parseInt(line(in).substring(1));
                words.add(new String(in.readNBytes(length), StandardCharsets.UTF_8));
                in.readNBytes(2);
            }
            String answer = resp(words, socket);
            if (!mute) {
                synchronized (socket) {
                    socket.getOutputStream().write(answer.getBytes(StandardCharsets.UTF_8));
                }
            }
        }
    }

    private String resp(List<String> words, Socket socket) {
        switch (words.get(0)) {
            case "HELLO":
                return "%1\r\n$5\r\nproto\r\n:3\r\n";
            case "CLIENT":
                if (refusesTracking) {
                    return "-ERR no tracking here\r\n";
                }
                trackers.add(socket);
                trackings.incrementAndGet();
                return "+OK\r\n";
            case "PTTL":
                tracked.add(words.get(1));
                return pttlReply.apply(words.get(1));
            case "PING":
                return "+PONG\r\n";
            default:
                return "-ERR unknown command\r\n";
        }
    }

    @Override
    public void close() {
        listener.close();
        respListener.close();
    }
}
