package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.Callable;

/** Where the server listens for Redis's protocol, and patience with what takes a moment. */
final class RespServer {
    static final String HOST = "127.0.0.1";
    static final int PORT = Integer.getInteger("resp.port", 0);
    private static final long PATIENCE_MS = 20_000;

    private RespServer() {}

    static void waitUntil(Callable<Boolean> holds) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!holds.call()) {
            assertTrue(System.currentTimeMillis() < end, "it does not become true");
            Thread.sleep(10);
        }
    }
}
