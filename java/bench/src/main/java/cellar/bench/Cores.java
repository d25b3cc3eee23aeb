package cellar.bench;

import cellar.client.testing.Server;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;

/**
 * Keeps servers and clients on processors of their own, the lower half for clients.
 *
 * <p>Left alone, the scheduler puts a blocking caller and its server on one processor in one run
 * and on two in the next; a round trip then takes five times as long, whatever the client.
 */
final class Cores {
    /** Read before anything is bound, which would count as all there is. */
    private static final int ALL = Runtime.getRuntime().availableProcessors();

    private static boolean split;

    private Cores() {}

    /** Binds this process and what it starts from now on, where there are several processors. */
    static void split() throws Exception {
        split = ALL > 1 && bind(ProcessHandle.current().pid(), 0, ALL / 2);
    }

    /** Moves {@code server} to the servers' half. */
    static Server place(Server server) throws Exception {
        if (split && !bind(server.pid(), ALL / 2, ALL)) {
            throw new IOException("a server cannot be bound");
        }
        return server;
    }

    private static boolean bind(long pid, int from, int to) throws Exception {
        String processors = from + "-" + (to - 1);
        return new ProcessBuilder("taskset", "-a", "-c", "-p", processors, "" + pid)
                        .redirectOutput(Redirect.DISCARD)
                        .redirectError(Redirect.DISCARD)
                        .start()
                        .waitFor()
                == 0;
    }
}
