package cellar.client.internal.net;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import cellar.client.CacheMetrics;
import cellar.client.Node;
import cellar.client.internal.wire.LineOperation;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * An event loop that is delayed for longer than any time-out, as the first one of a JVM while it
 * loads classes. A server that has answered meanwhile is not down.
 */
class HeldUpLoopTest {
    private static final Duration SHORT = Duration.ofMillis(1_500);
    private static final Duration LONG = Duration.ofMinutes(1);

    private Loops loops;
    private ServerSocket server;

    @BeforeEach
    void open() throws Exception {
        loops = new Loops(Loops.Transport.NIO, 1);
        server = new ServerSocket(0, 8, InetAddress.getLoopbackAddress());
    }

    @AfterEach
    void shut() throws Exception {
        server.close();
        loops.close();
    }

    private Endpoint endpoint(Duration connectTimeout) {
        Settings settings =
                new Settings(
                        LONG,
                        connectTimeout,
                        LONG,
                        LONG,
                        1,
                        1,
                        false,
                        false,
                        100,
                        null,
                        null,
                        null,
                        false,
                        CacheMetrics.NONE,
                        null);
        return new Endpoint(Node.of("127.0.0.1", server.getLocalPort()), settings, loops);
    }

    /** Reads a line, and answers it while the loop is blocked for {@code held}. */
    private void answerLate(BufferedReader in, Socket to, String answer, Duration held)
            throws Exception {
        in.readLine();
        CountDownLatch holds = new CountDownLatch(1);
        CompletableFuture<Void> end = new CompletableFuture<>();
        loops.next()
                .execute(
                        () -> {
                            holds.countDown();
                            end.join();
                        });
        holds.await();
        answer(to, answer);
        // paced: the loop is blocked for longer than the time-out.
        TimeUnit.MILLISECONDS.sleep(held.toMillis());
        end.complete(null);
    }

    private static void answer(Socket to, String answer) throws Exception {
        to.getOutputStream().write(answer.getBytes(US_ASCII));
    }

    private static BufferedReader lines(Socket socket) throws Exception {
        return new BufferedReader(new InputStreamReader(socket.getInputStream(), US_ASCII));
    }

    @Test
    void aConnectionWhoseAnswerHasComeIsMade() throws Exception {
        Endpoint endpoint = endpoint(SHORT);
        CompletableFuture<String> asked = endpoint.submit(new LineOperation("ask", "ask\r\n"));
        try (Socket socket = server.accept()) {
            BufferedReader in = lines(socket);
            answerLate(in, socket, "VERSION 1.6.18\r\n", SHORT.multipliedBy(2));
            assertEquals("mn", in.readLine());
            answer(socket, "MN\r\n");
            assertEquals("ask", in.readLine());
            answer(socket, "answer\r\n");
            assertEquals("answer", asked.get(1, TimeUnit.MINUTES));
            assertFalse(endpoint.isDown());
        }
        endpoint.close();
    }
}
