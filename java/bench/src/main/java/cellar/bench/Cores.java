package cellar.bench;

import cellar.client.testing.Server;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Keeps servers and clients on processors of their own, the lower half for clients.
 *
 * <p>Left alone, the scheduler puts a blocking caller and its server on one processor in one run
 * and on two in the next; a round trip then takes five times as long, whatever the client.
 */
final class Cores {
    private static int all;
    private static boolean split;

    private Cores() {}

    /** Binds this process and what it starts from now on; returns what was done, in words. */
    static String split() throws Exception {
        all = processors();
        int half = all / 2;
        long self = ProcessHandle.current().pid();
        split = half > 0 && bind(self, "0-" + (half - 1));
        return split
                ? "clients on processors 0-" + (half - 1) + ", servers on the others"
                : "not bound";
    }

    /** Moves {@code server} to the servers' half. */
    static Server place(Server server) throws Exception {
        if (split && !bind(server.pid(), all / 2 + "-" + (all - 1))) {
            throw new IOException("a server cannot be bound");
        }
        return server;
    }

    private static boolean bind(long pid, String processors) throws InterruptedException {
        String[] command = {"taskset", "-a", "-c", "-p", processors, "" + pid};
        try {
            Process process =
                    new ProcessBuilder(command)
                            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                            .redirectError(ProcessBuilder.Redirect.DISCARD)
                            .start();
            return process.waitFor() == 0;
        } catch (IOException e) {
            return false;
        }
    }

    private static int processors() throws IOException {
        Path file = Path.of("/proc/cpuinfo");
        if (!Files.isReadable(file)) {
            return Runtime.getRuntime().availableProcessors();
        }
        return (int)
                Files.readAllLines(file).stream()
                        .filter(line -> line.startsWith("processor"))
                        .count();
    }
}
