package cellar.client.testing;

import cellar.client.Node;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The reads of memcached 1.6.40: {@code mg} with a version omits an unchanged value, and versions
 * count from 1 in every process. A test stores items, restarts it and cuts its connections.
 */
public final class FakeMemcached implements AutoCloseable {
    private record Item(String value, long version) {}

    private final Listener listener;
    private final Map<String, Item> items = new ConcurrentHashMap<>();
    private final AtomicLong versions = new AtomicLong();
    private final AtomicInteger values = new AtomicInteger();
    private final AtomicInteger confirmations = new AtomicInteger();
    private final AtomicReference<Runnable> nextRead = new AtomicReference<>();

    /** Starts without items. */
    public FakeMemcached() throws IOException {
        listener = new Listener("fake-memcached", this::serve);
    }

    private void serve(Socket socket) throws IOException {
        BufferedReader lines =
                new BufferedReader(
                        new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (socket.isClosed()) {
                // A read that was in progress when the connection was cut may still arrive.
                return;
            }
            byte[] answer = answer(line.split(" ")).getBytes(StandardCharsets.US_ASCII);
            socket.getOutputStream().write(answer);
        }
    }

    private String answer(String[] words) {
        return switch (words[0]) {
            case "version" -> "VERSION 1.6.40\r\n";
            case "mn" -> "MN\r\n";
            case "mg" -> read(words);
            default -> "ERROR\r\n";
        };
    }

    private String read(String[] words) {
        Runnable event = nextRead.getAndSet(null);
        if (event != null) {
            event.run();
        }
        Item item = items.get(words[1]);
        if (item == null) {
            return "EN\r\n";
        }
        String flags = " f0 t-1 c" + item.version() + "\r\n";
        if (Arrays.asList(words).contains("C" + item.version())) {
            confirmations.incrementAndGet();
            return "HD" + flags;
        }
        values.incrementAndGet();
        return "VA " + item.value().length() + flags + item.value() + "\r\n";
    }

    /** Returns its address. */
    public Node node() {
        return listener.node();
    }

    /** Stores an item with the next version. */
    public void put(String key, String value) {
        items.put(key, new Item(value, versions.incrementAndGet()));
    }

    /** Becomes another process at the same address, with only this item. */
    public void restart(String key, String value) {
        items.clear();
        versions.set(0);
        put(key, value);
        // Last, because a client that loses its connection reads again at once.
        cut();
    }

    /** Closes all connections; the process continues. */
    public void cut() {
        listener.cut();
    }

    /** Runs when the next read has arrived, before it is answered. */
    public void atNextRead(Runnable event) {
        nextRead.set(event);
    }

    /** Returns how many values were sent. */
    public int values() {
        return values.get();
    }

    /** Returns how many values were omitted. */
    public int confirmations() {
        return confirmations.get();
    }

    @Override
    public void close() {
        listener.close();
    }
}
