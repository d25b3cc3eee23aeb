package libraries;

import static libraries.Show.show;

import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** Bucket4j: rate limits. */
final class Bucket4j {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var manager =
                            Bucket4jLettuce.casBasedBuilder(RedisClient.create(Show.URL)).build();
                    var limits =
                            BucketConfiguration.builder()
                                    .addLimit(
                                            limit ->
                                                    limit.capacity(2)
                                                            .refillGreedy(2, Duration.ofHours(1)))
                                    .build();
                    byte[] key = "me".getBytes(StandardCharsets.UTF_8);
                    var bucket = manager.builder().build(key, () -> limits);
                    show("consumed", bucket.tryConsume(1), bucket.tryConsume(1), bucket.tryConsume(1));
                    show("left", bucket.getAvailableTokens());
                });
    }
}
