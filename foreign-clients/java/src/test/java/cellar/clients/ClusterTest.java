package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.Response;

/** A cluster through Jedis and Lettuce. */
class ClusterTest {
    private static final int KEYS = 1000;
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    /** Jedis, with a pool of connections to each node. */
    private static final class JedisCluster implements ClusterClient {
        /** As long as an answer is waited for: a busy machine takes seconds. */
        private static final int ANSWER_MS = 20_000;

        /** As long as a request is tried, which grows with the former unless said. */
        private static final Duration TRIED = Duration.ofSeconds(10);

        private final RedisClusterClient client;

        JedisCluster() {
            Set<HostAndPort> nodes =
                    ClusterStage.nodes("CLUSTER_NODES").stream()
                            .map(node -> new HostAndPort(node.getHostString(), node.getPort()))
                            .collect(Collectors.toSet());
            client =
                    RedisClusterClient.builder()
                            .nodes(nodes)
                            .clientConfig(
                                    DefaultJedisClientConfig.builder()
                                            .timeoutMillis(ANSWER_MS)
                                            .build())
                            .maxTotalRetriesDuration(TRIED)
                            .build();
        }

        @Override
        public void set(String key, String value) {
            client.set(key, value);
        }

        @Override
        public String get(String key) {
            return client.get(key);
        }

        @Override
        public void setAll(List<String> keys, String value) {
            List<Response<String>> replies = new ArrayList<>();
            try (ClusterPipeline pipe = client.pipelined()) {
                keys.forEach(key -> replies.add(pipe.set(key, value)));
            }
            replies.forEach(Response::get);
        }

        @Override
        public List<String> getAll(List<String> keys) {
            List<Response<String>> replies = new ArrayList<>();
            try (ClusterPipeline pipe = client.pipelined()) {
                keys.forEach(key -> replies.add(pipe.get(key)));
            }
            return replies.stream().map(Response::get).toList();
        }

        @Override
        public void close() {
            client.close();
        }
    }

    /** Lettuce, with one connection to each node. */
    private static final class LettuceCluster implements ClusterClient {
        private final io.lettuce.core.cluster.RedisClusterClient client;
        private final StatefulRedisClusterConnection<String, String> connection;

        LettuceCluster() {
            List<RedisURI> nodes =
                    ClusterStage.nodes("CLUSTER_NODES").stream()
                            .map(node -> RedisURI.create(node.getHostString(), node.getPort()))
                            .toList();
            client = io.lettuce.core.cluster.RedisClusterClient.create(nodes);
            connection = client.connect();
            connection.setTimeout(PATIENCE);
        }

        @Override
        public void set(String key, String value) {
            connection.sync().set(key, value);
        }

        @Override
        public String get(String key) {
            return connection.sync().get(key);
        }

        @Override
        public void setAll(List<String> keys, String value) throws Exception {
            all(keys.stream().map(key -> connection.async().set(key, value)).toList());
        }

        @Override
        public List<String> getAll(List<String> keys) throws Exception {
            return all(keys.stream().map(key -> connection.async().get(key)).toList());
        }

        private static List<String> all(List<RedisFuture<String>> replies) throws Exception {
            LettuceFutures.awaitAll(PATIENCE, replies.toArray(new RedisFuture<?>[0]));
            List<String> values = new ArrayList<>();
            for (RedisFuture<String> reply : replies) {
                values.add(reply.get(1, TimeUnit.SECONDS));
            }
            return values;
        }

        @Override
        public void close() {
            client.shutdown(0, 5, TimeUnit.SECONDS);
        }
    }

    @Test
    void jedisGoesOn() throws Exception {
        goesOn("jedis", new JedisCluster());
    }

    @Test
    void lettuceGoesOn() throws Exception {
        goesOn("lettuce", new LettuceCluster());
    }

    private static void goesOn(String name, ClusterClient opened) throws Exception {
        try (ClusterClient client = opened) {
            List<String> keys = IntStream.range(0, KEYS).mapToObj(i -> name + ":" + i).toList();
            storesAndFindsAll(client, keys, "first");
            for (String scene : List.of("goes", "comes")) {
                playWhileItWrites(scene, client, keys);
                storesAndFindsAll(client, keys, scene);
            }
            for (String scene : List.of("dies", "returns")) {
                playWhileItWrites(scene, client, keys);
                atLastStoresAndFindsAll(client, keys, scene);
            }
        }
    }

    private static void playWhileItWrites(String scene, ClusterClient client, List<String> keys)
            throws Exception {
        AtomicBoolean isOver = new AtomicBoolean();
        AtomicInteger stored = new AtomicInteger();
        CompletableFuture<Void> writing =
                CompletableFuture.runAsync(() -> write(client, keys, stored, isOver));
        try {
            ClusterStage.play(scene);
            // One answer that a dead node owes may take longer than the scene.
            Await.until("a write", () -> stored.get() > 0);
        } finally {
            isOver.set(true);
        }
        writing.get();
    }

    /** Writes without a pause, and counts what was stored. */
    private static void write(
            ClusterClient client, List<String> keys, AtomicInteger stored, AtomicBoolean isOver) {
        for (int turn = 0; !isOver.get(); turn++) {
            try {
                client.set("written:" + keys.get(turn % KEYS), "written");
                stored.incrementAndGet();
            } catch (Exception tolerated) {
                // What a dead node had, nobody takes.
            }
        }
    }

    /** Tries until nothing fails: what a client has of a dead node it may find out first. */
    private static void atLastStoresAndFindsAll(
            ClusterClient client, List<String> keys, String value) throws Exception {
        Await.until(
                "all are stored and found",
                () -> {
                    try {
                        storesAndFindsAll(client, keys, value);
                        return true;
                    } catch (Exception failed) {
                        return false;
                    }
                });
    }

    private static void storesAndFindsAll(ClusterClient client, List<String> keys, String value)
            throws Exception {
        List<String> one = keys.subList(0, KEYS / 2);
        List<String> other = keys.subList(KEYS / 2, KEYS);
        for (String key : one) {
            client.set(key, value);
        }
        client.setAll(other, value);
        List<String> found = new ArrayList<>(client.getAll(one));
        for (String key : other) {
            found.add(client.get(key));
        }
        assertEquals(KEYS, Collections.frequency(found, value));
    }
}
