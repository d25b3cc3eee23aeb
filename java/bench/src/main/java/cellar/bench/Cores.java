package cellar.bench;

import cellar.client.testing.Server;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;

/**
 * Binds servers and clients to different processors, clients to the lower half.
 *
 * <p>Otherwise the scheduler may put a blocking caller and its server on one processor in one run
 * and on two in the next. A round trip then takes five times as long, whatever the client.
 */
final class Cores {
    /** Read before any binding, which would limit the result. */
    private static final int ALL = Runtime.getRuntime().availableProcessors();

    private static boolean split;

    private Cores() {}

    /** Binds this process and its later children, if there are several processors. */
    static void split() throws Exception {
        split = ALL > 1 && bind(ProcessHandle.current().pid(), 0, ALL / 2);
    }

    /** Moves {@code server} to the processors of servers. */
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
