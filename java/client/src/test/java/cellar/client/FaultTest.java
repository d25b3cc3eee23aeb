package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Await;
import cellar.client.testing.FaultyServer;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Faulty servers: no wrong value, no call without an end, and recovery afterwards. */
class FaultTest {
    private static final Duration TTL = Duration.ofMinutes(1);

    /** A time-out for requests without an answer. */
    private static final Duration SHORT = Duration.ofMillis(200);

    private FaultyServer server;
    private CacheClient<String> client;
    private BlockingCacheClient<String> cache;

    @BeforeEach
    void open() throws Exception {
        server = new FaultyServer();
        use(Patient.builder());
    }

    private void use(CacheClientBuilder builder) {
        client =
                builder.nodes(List.of(server.node()))
                        .backoff(Duration.ofMillis(1), Duration.ofMillis(10))
                        .inFlightMax(100)
                        .build(Codecs.string());
        cache = client.blocking();
    }

    /** Sets a short time-out, for tests of silent servers. */
    private void hurry() {
        client.close();
        use(CacheClient.builder().timeout(SHORT).connectTimeout(SHORT.multipliedBy(2)));
    }

    @AfterEach
    void shut() {
        client.close();
        server.close();
    }

    private CacheException fails(boolean blocking) {
        if (blocking) {
            return assertThrows(CacheException.class, () -> cache.get("k"));
        }
        CompletableFuture<String> read = client.get("k").toCompletableFuture();
        return (CacheException) assertThrows(CompletionException.class, read::join).getCause();
    }

    private String get(boolean blocking) {
        return blocking ? cache.get("k") : client.get("k").toCompletableFuture().join();
    }

    private void assertHeals(boolean blocking) throws Exception {
        server.answer("VA 1 f0\r\nx\r\n");
        Await.until(
                "health",
                () -> {
                    try {
                        return "x".equals(get(blocking));
                    } catch (CacheException | CompletionException e) {
                        return false;
                    }
                });
    }

    @Test
    @Tag("deep")
    void aNodeThatAnswersCallersIsUpWhateverConnectionHangs() throws Exception {
        server.answer("VA 1 f0\r\nx\r\n");
        Await.until("answers without a pause", this::answersWhileAConnectionHangs);
        server.greets(true);
        assertHeals(false);
    }

    /** False if there was no answer for so long that the client may have declared the node down. */
    private boolean answersWhileAConnectionHangs() throws Exception {
        server.greets(true);
        hurry();
        long answered_ns = System.nanoTime();
        try {
            assertEquals("x", cache.get("k"));
            server.greets(false);
            CompletableFuture<String> hanging = client.get("k").toCompletableFuture();
            long end_ns = System.nanoTime() + 1_500_000_000;
            while (System.nanoTime() < end_ns) {
                long asked_ns = System.nanoTime();
                assertEquals("x", cache.get("k"));
                answered_ns = asked_ns;
                Thread.sleep(5); // paced: reads go on at a steady rate for longer than a timeout
            }
            Await.until("the end of the read that hangs", hanging::isCompletedExceptionally);
            return true;
        } catch (CacheException e) {
            if (System.nanoTime() - answered_ns < SHORT.toNanos()) {
                throw e;
            }
            return false;
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aReplyInSmallPiecesIsOneReply(boolean blocking) {
        server.answer("VA 10 f0\r\n0123456789\r\n");
        server.pieces(1);
        assertEquals("0123456789", get(blocking));
        assertEquals("0123456789", get(blocking));
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aLengthThatIsWrongIsAnErrorNotAValue(boolean blocking) throws Exception {
        for (String reply :
                List.of(
                        "VA 3 f0\r\nabcdef\r\n",
                        "VA x f0\r\nabc\r\n",
                        "VA -1 f0\r\n",
                        "VA 99999999999 f0\r\nabc\r\n",
                        "VA\r\n",
                        "what?\r\n",
                        "\r\n",
                        "EN\r\nEN\r\n")) {
            server.answer(reply);
            Await.until(
                    reply,
                    () -> {
                        try {
                            assertEquals(null, get(blocking), reply);
                            return reply.startsWith("EN");
                        } catch (CacheException.Protocol e) {
                            return true;
                        } catch (CompletionException e) {
                            return e.getCause() instanceof CacheException.Protocol;
                        } catch (CacheException.Connection e) {
                            return false;
                        }
                    });
            assertHeals(blocking);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aCutReplyIsAFailureNotAValue(boolean blocking) throws Exception {
        server.answer("VA 10 f0\r\n01234");
        server.closeAfterReply(true);
        assertInstanceOf(CacheException.Connection.class, fails(blocking));
        server.closeAfterReply(false);
        assertHeals(blocking);
    }

    @ParameterizedTest
    @Tag("deep")
    @ValueSource(booleans = {true, false})
    void silenceEndsWithTheTimeoutAndTheConnectionIsReplaced(boolean blocking) throws Exception {
        hurry();
        server.answer("");
        CacheException failure = fails(blocking);
        assertTrue(
                failure instanceof CacheException.Timeout
                        || failure instanceof CacheException.Connection,
                failure.toString());
        assertHeals(blocking);
    }

    @ParameterizedTest
    @Tag("deep")
    @ValueSource(booleans = {true, false})
    void aReplyThatTricklesForEverEndsToo(boolean blocking) throws Exception {
        hurry();
        server.answer("VA 1000000 f0\r\n" + "x".repeat(1000));
        server.pieces(1);
        server.pauseBetweenPieces(true);
        fails(blocking);
        server.pieces(1 << 20);
        server.pauseBetweenPieces(false);
        assertHeals(blocking);
    }

    @Test
    @Tag("deep")
    void aLateReplyDoesNotAnswerTheNextRequest() throws Exception {
        hurry();
        server.answer("VA 3 f0\r\nold\r\n");
        CountDownLatch go = new CountDownLatch(1);
        server.beforeReply(go);
        assertInstanceOf(CacheException.class, fails(false));
        server.answer("VA 3 f0\r\nnew\r\n");
        go.countDown();
        server.beforeReply(null);
        Await.until(
                "an answer",
                () -> {
                    try {
                        return "new".equals(get(false));
                    } catch (CompletionException e) {
                        return false;
                    }
                });
    }

    @Test
    @Tag("deep")
    void aServerThatNeverGreetsIsATimeout() throws Exception {
        hurry();
        server.greets(false);
        fails(true);
        fails(false);
        server.greets(true);
        assertHeals(true);
        assertHeals(false);
    }

    @Test
    void aGreetingThatIsLateDoesNotPutTheNodeDown() throws Exception {
        client.close();
        use(CacheClient.builder().timeout(SHORT).connectTimeout(Duration.ofMinutes(1)));
        server.answer("VA 1 f0\r\nx\r\n");
        server.greets(false);
        assertInstanceOf(CacheException.Timeout.class, fails(true));
        server.greets(true);
        Await.until(
                "an answer",
                () -> {
                    try {
                        return "x".equals(cache.get("k"));
                    } catch (CacheException.Timeout e) {
                        return false;
                    }
                });
    }

    /** The time-out is long, so none of the 100 requests ends before the others are sent. */
    @Test
    void fullQueuesRefuseAtOnce() {
        server.answer("");
        List<CompletableFuture<String>> reads = new ArrayList<>();
        try (CacheClient<String> patient =
                Patient.builder()
                        .nodes(List.of(server.node()))
                        .inFlightMax(100)
                        .build(Codecs.string())) {
            for (int i = 0; i < 500; i++) {
                reads.add(patient.get("k").toCompletableFuture());
            }
            List<CompletableFuture<String>> refused =
                    reads.stream().filter(CompletableFuture::isCompletedExceptionally).toList();
            assertEquals(400, refused.size());
            for (CompletableFuture<String> read : refused) {
                CompletionException failure = assertThrows(CompletionException.class, read::join);
                assertInstanceOf(CacheException.Overloaded.class, failure.getCause());
            }
        }
        for (CompletableFuture<String> read : reads) {
            assertThrows(CompletionException.class, read::join);
        }
    }

    @Test
    @Tag("deep")
    void requestsToANodeThatIsDownFailAtOnceUntilItIsBack() throws Exception {
        Server memcached = Server.memcached(0);
        int port = memcached.port();
        try (CacheClient<String> other =
                CacheClient.builder()
                        .nodes("127.0.0.1:" + port)
                        .timeout(Duration.ofSeconds(30))
                        .connectTimeout(Duration.ofSeconds(20))
                        .backoff(Duration.ofMillis(1), Duration.ofMillis(10))
                        .build(Codecs.string())) {
            other.blocking().set("k", "v", TTL);
            memcached.kill();
            Await.until("down", () -> failsWithConnection(other));
            memcached = Server.memcached(port);
            Await.until("back", () -> !failsWithConnection(other));
            other.blocking().set("k", "w", TTL);
            assertEquals("w", other.blocking().get("k"));
        } finally {
            memcached.close();
        }
    }

    private static boolean failsWithConnection(CacheClient<String> client) {
        try {
            client.blocking().get("k");
            return false;
        } catch (CacheException.Connection e) {
            return true;
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aReadOnAConnectionThatTheServerClosedIsSentAgain(boolean blocking) {
        server.answer("VA 1 f0\r\nx\r\n");
        assertEquals("x", get(blocking));
        server.closeConnections();
        assertEquals("x", get(blocking));
    }

    @Test
    void aWriteIsNeverSentTwice() {
        server.answer("HD\r\n");
        cache.set("k", "v", TTL);
        int before = server.requests();
        server.closeBeforeReply(true);
        assertThrows(CacheException.Connection.class, () -> cache.increment("k", 1));
        assertEquals(before + 1, server.requests());
    }

    @Test
    void anInterruptedCallerLeavesAndTheOthersGoOn() throws Exception {
        server.answer("VA 1 f0\r\nx\r\n");
        assertEquals("x", cache.get("k"));
        AtomicReference<Throwable> failure = new AtomicReference<>();
        server.answer("");
        Thread caller =
                new Thread(
                        () -> {
                            try {
                                cache.get("k");
                            } catch (CacheException e) {
                                failure.set(
                                        Thread.currentThread().isInterrupted()
                                                ? e
                                                : new AssertionError("no flag"));
                            }
                        });
        int before = server.requests();
        caller.start();
        Await.until("a request", () -> server.requests() > before);
        caller.interrupt();
        caller.join();
        assertInstanceOf(CacheException.Loading.class, failure.get());
        assertHeals(true);
    }

    @Test
    void aCallerThatLeftTheQueueKeepsNobodyElse() throws Exception {
        server.answer("");
        try (CacheClient<String> one =
                Patient.builder()
                        .nodes(List.of(server.node()))
                        .connections(1)
                        .build(Codecs.string())) {
            // Two of them exceed the limit of unanswered bytes, so the second stays queued.
            Runnable set =
                    () ->
                            assertThrows(
                                    CacheException.class,
                                    () -> one.blocking().set("k", "x".repeat(40_000), TTL));
            Thread leader = new Thread(set);
            leader.start();
            Await.until("a request", () -> server.requests() > 0);
            Thread follower = new Thread(set);
            follower.start();
            Await.until("a wait", () -> follower.getState() == Thread.State.TIMED_WAITING);
            follower.interrupt();
            follower.join();
            // This ends the leader's request, and the leader looks for the next one.
            server.closeConnections();
            Await.until(
                    "the end of the leader", () -> leader.getState() == Thread.State.TERMINATED);
        }
    }

    /** The server may still execute the writes, so the client must not report them as not sent. */
    @Test
    void allWritesOnAConnectionThatHasGoneSilentTimeOut() throws Exception {
        client.close();
        use(CacheClient.builder().blockingConnections(1).timeout(SHORT.multipliedBy(6)));
        CountDownLatch first = new CountDownLatch(1);
        CountDownLatch never = new CountDownLatch(1);
        server.beforeReply(first);
        Thread leader = new Thread(() -> cache.get("k"));
        leader.start();
        Await.until("a request", () -> server.requests() > 0);
        List<Throwable> failures = new CopyOnWriteArrayList<>();
        List<Thread> writers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Thread writer = new Thread(() -> cache.set("k", "x", TTL));
            writer.setUncaughtExceptionHandler((thread, failure) -> failures.add(failure));
            writer.start();
            writers.add(writer);
            Await.until("a wait", () -> writer.getState() == Thread.State.TIMED_WAITING);
            // paced: the second request may wait longer than the first.
            Thread.sleep(SHORT.toMillis());
        }
        server.beforeReply(never);
        first.countDown();
        for (Thread writer : writers) {
            writer.join();
        }
        never.countDown();
        leader.join();
        assertEquals(2, failures.size());
        failures.forEach(failure -> assertInstanceOf(CacheException.Timeout.class, failure));
    }

    @Test
    @Tag("deep")
    void aServerThatNeverGreetsIsToldFromOneThatBrokeOff() throws Exception {
        try (ServerSocket mute = new ServerSocket(0);
                CacheClient<String> one =
                        CacheClient.builder()
                                .nodes(List.of(Node.of("127.0.0.1", mute.getLocalPort())))
                                .timeout(Duration.ofSeconds(20))
                                .connectTimeout(Duration.ofMillis(50))
                                .build(Codecs.string())) {
            CacheException late =
                    assertThrows(
                            CacheException.Timeout.class, () -> one.blocking().set("k", "v", TTL));
            assertTrue(late.getMessage().endsWith("does not answer"), late.getMessage());
        }
    }

    @Test
    void aClosedClientRefusesAndEndsWhatWaits() {
        server.answer("");
        CompletableFuture<String> waiting = client.get("k").toCompletableFuture();
        client.close();
        client.close();
        assertThrows(CompletionException.class, waiting::join);
        assertThrows(CacheException.Closed.class, () -> cache.get("k"));
        Throwable cause =
                client.get("k").handle((value, failure) -> failure).toCompletableFuture().join();
        assertInstanceOf(CacheException.Closed.class, cause);
    }

    @Test
    void callersAreAnsweredWhileOneOfManyConnectionsHangs() throws Exception {
        AtomicInteger answered = new AtomicInteger();
        server.answer("VA 1 f0\r\nx\r\n");
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 20; t++) {
            threads.add(
                    new Thread(
                            () -> {
                                for (int i = 0; i < 50; i++) {
                                    try {
                                        cache.get("k");
                                    } catch (CacheException e) {
                                        // Success or failure: the test only needs the end of the
                                        // call.
                                        answered.incrementAndGet();
                                        continue;
                                    }
                                    answered.incrementAndGet();
                                }
                            }));
        }
        threads.forEach(Thread::start);
        server.closeConnections();
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(1000, answered.get());
    }

    @ParameterizedTest
    @Tag("deep")
    @ValueSource(booleans = {true, false})
    void overADeadConnectionNoCheckedRequestIsSent(boolean checked) throws Exception {
        server.answer("HD\r\n");
        try (CacheClient<String> other =
                CacheClient.builder()
                        .nodes(List.of(server.node()))
                        .timeout(Duration.ofSeconds(5))
                        .connectTimeout(Duration.ofSeconds(20))
                        .checkedConnections(checked)
                        .build(Codecs.string())) {
            other.blocking().set("k", "v", TTL);
            other.blocking().set("k", "v", TTL);
            if (checked) {
                server.closeConnections();
                other.blocking().set("k", "v", TTL);
            } else {
                Await.until("a lost set", () -> failsOverADeadConnection(other.blocking()));
            }
            other.blocking().set("k", "v", TTL);
        }
    }

    /** False if the request was late, so the client checked and opened another connection. */
    private boolean failsOverADeadConnection(BlockingCacheClient<String> over) {
        long begin_ns = System.nanoTime();
        over.set("k", "v", TTL);
        server.closeConnections();
        try {
            over.set("k", "v", TTL);
        } catch (CacheException.Connection e) {
            return true;
        }
        assertTrue(System.nanoTime() - begin_ns > 1_000_000_000, "the set was not lost");
        return false;
    }

    @Test
    @Tag("deep")
    void callersShareACheck() throws Exception {
        try (Server real = Server.memcached(0);
                CacheClient<String> other =
                        CacheClient.builder()
                                .nodes(List.of(real.node()))
                                .timeout(Duration.ofSeconds(20))
                                .connectTimeout(Duration.ofSeconds(20))
                                .checkedConnections(true)
                                .build(Codecs.string())) {
            List<Thread> threads = new ArrayList<>();
            AtomicInteger right = new AtomicInteger();
            for (int t = 0; t < 16; t++) {
                String key = "k" + t;
                threads.add(
                        new Thread(
                                () -> {
                                    for (int i = 0; i < 200; i++) {
                                        other.blocking().set(key, key + i, TTL);
                                        boolean same = (key + i).equals(other.blocking().get(key));
                                        right.addAndGet(same ? 1 : 0);
                                    }
                                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(16 * 200, right.get());
        }
    }
}
