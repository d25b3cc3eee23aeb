package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import cellar.client.testing.Await;
import cellar.client.testing.ChangingNodes;
import cellar.client.testing.FakeCellar;
import cellar.client.testing.Patient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Races between reads and invalidations, in every order, with a scripted server. */
class CoherenceTest {
    private static final Duration DAY = Duration.ofDays(1);
    private static final String NULL_PUSH = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

    private final AtomicLong moved_ns = new AtomicLong();
    private final AtomicInteger told = new AtomicInteger();
    private final CacheMetrics metrics =
            new CacheMetrics() {
                @Override
                public void invalidated() {
                    told.incrementAndGet();
                }
            };
    private FakeCellar server;
    private CacheClient<String> client;

    @BeforeEach
    void open() throws Exception {
        server = new FakeCellar();
        connect();
    }

    private void connect() throws Exception {
        client =
                Patient.builder()
                        .nodes(List.of(server.node()))
                        .backoff(Duration.ofMillis(1), Duration.ofMillis(10))
                        .localCache(LocalCacheOptions.tracked(1 << 20, server.respPort()))
                        .metrics(metrics)
                        .ticker(moved_ns::get)
                        .build(Codecs.string());
        untilTracked();
    }

    @AfterEach
    void shut() {
        client.close();
        server.close();
    }

    private String get(String key) {
        return join(client.get(key, DAY));
    }

    private static <T> T join(CompletionStage<T> stage) {
        return stage.toCompletableFuture().join();
    }

    /** Waits until copies are kept, because the tracking connection works. */
    private void untilTracked() throws Exception {
        server.put("probe", "v");
        Await.until(
                "tracking",
                () -> {
                    get("probe");
                    int before = server.reads();
                    get("probe");
                    return server.reads() == before;
                });
    }

    /** Retries, because no copy is kept if the reply to tracking is late, as on a busy machine. */
    private void untilLocal(String key, String value) throws Exception {
        Await.until(
                "a copy of " + key,
                () -> {
                    int before = server.reads();
                    assertEquals(value, get(key));
                    return server.reads() == before;
                });
    }

    private void assertRemote(String key, String value) {
        int before = server.reads();
        assertEquals(value, get(key));
        assertEquals(before + 1, server.reads(), "served from the local cache");
    }

    /** Waits until an invalidation, which uses another connection than reads, has arrived. */
    private void untilRemote(String key, String value) throws Exception {
        Await.until("the new value of " + key, () -> value.equals(get(key)));
    }

    @Test
    void aCopyIsServedUntilTheItemChanges() throws Exception {
        server.put("k", "old");
        assertRemote("k", "old");
        untilLocal("k", "old");
        server.change("k", "new");
        untilRemote("k", "new");
        untilLocal("k", "new");
    }

    @Test
    void theCallersLocalTtlDecidesNotTheOneItWasFilledWith() throws Exception {
        server.put("k", "v");
        assertRemote("k", "v");
        untilLocal("k", "v");
        moved_ns.addAndGet(600_000_000);
        assertEquals("v", join(client.get("k", DAY)));
        int before = server.reads();
        join(client.get("k", Duration.ofMillis(100)));
        assertEquals(before + 1, server.reads());
    }

    @Test
    void aChangeBetweenTrackingAndReadingIsNotKept() throws Exception {
        server.put("k", "old");
        server.beforeReadReply(
                () -> {
                    server.beforeReadReply(() -> {});
                    int before = told.get();
                    server.change("k", "new");
                    untilTold(before);
                });
        assertEquals("old", get("k"));
        assertRemote("k", "new");
    }

    private void untilTold(int before) {
        try {
            Await.until("the push", () -> told.get() > before);
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void aChangeRightBehindTheReplyDropsTheCopy() throws Exception {
        server.put("k", "old");
        server.afterReadReply(
                () -> {
                    server.afterReadReply(() -> {});
                    server.change("k", "new");
                });
        assertEquals("old", get("k"));
        untilRemote("k", "new");
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aPushInTheSegmentOfTheTrackingReplyIsNotLost(boolean pushFirst) throws Exception {
        server.put("k", "old");
        server.pttlReply(
                key -> {
                    server.pttlReply(other -> ":-1\r\n");
                    String push = FakeCellar.invalidation(key);
                    return pushFirst ? push + ":-1\r\n" : ":-1\r\n" + push;
                });
        assertEquals("old", get("k"));
        server.put("k", "new");
        untilRemote("k", "new");
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aNullPushInTheSegmentOfTheTrackingReplyDropsEverything(boolean pushFirst)
            throws Exception {
        server.put("k", "old");
        server.put("other", "old");
        get("other");
        server.pttlReply(
                key -> {
                    server.pttlReply(again -> ":-1\r\n");
                    return pushFirst ? NULL_PUSH + ":-1\r\n" : ":-1\r\n" + NULL_PUSH;
                });
        assertEquals("old", get("k"));
        server.put("k", "new");
        server.put("other", "new");
        untilRemote("k", "new");
        assertRemote("other", "new");
    }

    @Test
    void aFlushDropsAllCopiesAndLaterKeysAreTrackedAgain() throws Exception {
        server.put("k", "old");
        get("k");
        server.flush();
        Await.until("the flush", () -> get("k") == null);
        server.change("k", "new");
        untilRemote("k", "new");
        untilLocal("k", "new");
        server.change("k", "newer");
        untilRemote("k", "newer");
    }

    @Test
    void nothingIsServedAfterTheTrackingConnectionWasKilled() throws Exception {
        server.put("k", "old");
        get("k");
        int connections = server.trackings();
        server.killTracking();
        server.put("k", "new");
        Await.until("a new connection", () -> server.trackings() > connections);
        assertEquals("new", get("k"));
        untilTracked();
        untilLocal("k", "new");
        server.change("k", "newer");
        untilRemote("k", "newer");
    }

    @Test
    void nothingIsServedWhenTheConnectionIsSilent() throws Exception {
        server.put("k", "old");
        untilLocal("k", "old");
        server.mute(true);
        moved_ns.addAndGet(2_100_000_000L);
        server.put("k", "new");
        CompletionStage<String> read = client.get("k", DAY);
        server.mute(false);
        assertEquals("new", join(read));
    }

    @Test
    void whatIsToldWhileQuestionsHaveNoAnswerKeepsNoCopyAlive() throws Exception {
        for (String key : List.of("k", "other")) {
            server.put(key, "old");
            untilLocal(key, "old");
        }
        server.mute(true);
        moved_ns.addAndGet(1_500_000_000L);
        // This message may have been delayed with later ones behind it, so it does not show that
        // the connection works.
        server.change("other", "new");
        untilRemote("other", "new");
        moved_ns.addAndGet(1_000_000_000L);
        server.put("k", "new");
        CompletionStage<String> read = client.get("k", DAY);
        server.mute(false);
        assertEquals("new", join(read));
    }

    @Test
    void ownWritesAreReadBack() {
        server.put("k", "old");
        get("k");
        join(client.set("k", "mine", DAY));
        assertEquals("mine", get("k"));
    }

    @Test
    void aReadUnderWayDoesNotBringAnOwnWriteBack() throws Exception {
        server.put("k", "old");
        CountDownLatch looked = new CountDownLatch(1);
        CountDownLatch written = new CountDownLatch(1);
        server.beforeReadReply(
                () -> {
                    server.beforeReadReply(() -> {});
                    looked.countDown();
                    await(written);
                });
        CompletionStage<String> read = client.get("k", DAY);
        looked.await();
        server.put("k", "mine");
        ((cellar.client.internal.AsyncView<String>) client).forget("k");
        written.countDown();
        assertEquals("old", join(read));
        assertRemote("k", "mine");
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void callersOfOneKeyShareOneRead() {
        server.put("k", "v");
        int before = server.reads();
        CountDownLatch all = new CountDownLatch(1);
        server.beforeReadReply(() -> await(all));
        List<CompletableFuture<String>> reads = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            reads.add(client.get("k", DAY).toCompletableFuture());
        }
        all.countDown();
        reads.forEach(read -> assertEquals("v", read.join()));
        assertEquals(before + 1, server.reads());
    }

    @Test
    void whoAsksAfterTheChangeDoesNotJoinTheOldRead() throws Exception {
        server.put("k", "old");
        CountDownLatch looked = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        server.beforeReadReply(
                () -> {
                    server.beforeReadReply(() -> {});
                    looked.countDown();
                    await(go);
                });
        CompletionStage<String> first = client.get("k", DAY);
        looked.await();
        int before = told.get();
        server.change("k", "new");
        untilTold(before);
        CompletionStage<String> second = client.get("k", DAY);
        go.countDown();
        assertEquals("old", join(first));
        assertEquals("new", join(second));
    }

    @Test
    void aCopyEndsWhenTheItemDoes() throws Exception {
        server.put("k", "v");
        // Shorter than copies are returned without a message, so that this does not end the copy.
        server.pttlReply(key -> ":500\r\n");
        untilLocal("k", "v");
        moved_ns.addAndGet(501_000_000);
        assertRemote("k", "v");
    }

    @Test
    void thatThereIsNothingIsRememberedToo() throws Exception {
        assertNull(get("none"));
        untilLocal("none", null);
        server.change("none", "v");
        untilRemote("none", "v");
    }

    @Test
    void aServerThatDoesNotTrackIsReadEachTime() throws Exception {
        client.close();
        server.close();
        server = new FakeCellar();
        server.refuseTracking();
        client =
                Patient.builder()
                        .nodes(List.of(server.node()))
                        .localCache(LocalCacheOptions.tracked(1 << 20, server.respPort()))
                        .build(Codecs.string());
        server.put("k", "v");
        assertRemote("k", "v");
        assertRemote("k", "v");
    }

    @Test
    void garbageOnTheTrackingConnectionEndsItAndItsCopies() throws Exception {
        server.put("k", "old");
        get("k");
        int connections = server.trackings();
        server.put("k", "new");
        server.push("?what\r\n");
        Await.until("a new connection", () -> server.trackings() > connections);
        assertEquals("new", get("k"));
    }

    @Test
    void aKeyThatGetsAnotherHomeIsReadAnew() throws Exception {
        FakeCellar second = new FakeCellar();
        AtomicReference<List<Node>> nodes = new AtomicReference<>(List.of(server.node()));
        LocalCacheOptions options =
                LocalCacheOptions.tracked(1 << 20, server.respPort())
                        .ports(Map.of(second.node().address(), second.respPort()));
        server.put("k", "here");
        second.put("k", "there");
        try (CacheClient<String> moving =
                Patient.builder()
                        .discovery(ChangingNodes.of(nodes::get))
                        .localCache(options)
                        .build(Codecs.string())) {
            Await.until(
                    "a copy",
                    () -> {
                        join(moving.get("k", DAY));
                        int before = server.reads();
                        join(moving.get("k", DAY));
                        return server.reads() == before;
                    });
            nodes.set(List.of(second.node()));
            Await.until("the new home", () -> "there".equals(join(moving.get("k", DAY))));
        } finally {
            second.close();
        }
    }
}
