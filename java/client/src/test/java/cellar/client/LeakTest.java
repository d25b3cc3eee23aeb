package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cellar.client.testing.FaultyServer;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.util.ResourceLeakDetector;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Every buffer is released, in whatever way its connection ends. */
@Tag("deep")
class LeakTest {
    private static final int ROUNDS = 200;

    @Test
    void noBufferIsLostWhenConnectionsBreak() throws Exception {
        ResourceLeakDetector.Level before = ResourceLeakDetector.getLevel();
        ResourceLeakDetector.setLevel(ResourceLeakDetector.Level.PARANOID);
        Queue<String> leaks = new ConcurrentLinkedQueue<>();
        ByteBufUtil.setLeakListener((type, records) -> leaks.add(type + records));
        try {
            breakConnections();
            for (int i = 0; i < 20; i++) {
                System.gc();
                ByteBuf polled = PooledByteBufAllocator.DEFAULT.directBuffer();
                polled.release();
            }
            assertEquals(List.of(), List.copyOf(leaks));
        } finally {
            ByteBufUtil.setLeakListener(null);
            ResourceLeakDetector.setLevel(before);
        }
    }

    private static void breakConnections() throws Exception {
        try (FaultyServer server = new FaultyServer();
                CacheClient<String> client =
                        CacheClient.builder()
                                .nodes(List.of(server.node()))
                                .backoff(Duration.ofMillis(1), Duration.ofMillis(2))
                                .timeout(Duration.ofMillis(100))
                                .build(Codecs.string())) {
            for (int i = 0; i < ROUNDS; i++) {
                server.answer(i % 3 == 0 ? "VA 5 f0\r\nab" : "VA 1 f0\r\nx\r\n");
                CompletableFuture<?> read = client.get("k").toCompletableFuture();
                if (i % 3 == 2) {
                    read.handle((value, failure) -> value).join();
                }
                server.closeConnections();
                read.handle((value, failure) -> value).join();
            }
        }
    }
}
