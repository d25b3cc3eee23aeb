package cellar.bench;

import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** Measures requests per second of one client on one server. */
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
public class Clients {
    static final int KEYS = 1000;
    static final int WINDOW = 256;

    /** The client, shared by all threads. */
    @State(Scope.Benchmark)
    public static class Load {
        @Param("cellar")
        private String client;

        @Param("memcached")
        private String server;

        @Param("100B")
        private String value;

        private Peer peer;
        private Object stored;
        private final String[] keys = new String[KEYS];
        private final Semaphore window = new Semaphore(WINDOW);
        private volatile boolean missed;

        void answered(Object value) {
            if (value == null) {
                missed = true;
            }
            window.release();
        }

        @Setup(Level.Trial)
        public void open() throws Exception {
            boolean resp = client.equals("lettuce");
            int port = Integer.getInteger("bench." + server + (resp ? ".resp" : ""));
            peer = Peer.open(client, List.of(port), value);
            stored = Values.of(value);
            for (int i = 0; i < KEYS; i++) {
                keys[i] = client + "-" + value + "-" + i;
                peer.set().to(keys[i], stored);
            }
            if (!stored.equals(peer.get().of(keys[0]))) {
                throw new IllegalStateException(client + " does not read what it wrote");
            }
        }

        @TearDown(Level.Trial)
        public void close() throws Exception {
            window.acquire(WINDOW);
            peer.close();
            if (missed) {
                throw new IllegalStateException(client + " lost values");
            }
        }
    }

    /** The position of a thread in the keys. */
    @State(Scope.Thread)
    public static class Cursor {
        private int at = (int) (System.nanoTime() & 0xff);

        String next(String[] keys) {
            at = (at + 7) % keys.length;
            return keys[at];
        }
    }

    /** Reads and waits. */
    @Benchmark
    public Object get(Load load, Cursor cursor) throws Exception {
        return load.peer.get().of(cursor.next(load.keys));
    }

    /** Stores and waits. */
    @Benchmark
    public void set(Load load, Cursor cursor) throws Exception {
        load.peer.set().to(cursor.next(load.keys), load.stored);
    }

    /** Reads with a bounded number of unanswered requests. */
    @Benchmark
    public void getAsync(Load load, Cursor cursor) throws Exception {
        load.window.acquire();
        load.peer.getAsync().of(cursor.next(load.keys), load::answered);
    }
}
