package libraries;

import static libraries.Show.show;

import io.vertx.core.Vertx;
import io.vertx.redis.client.Redis;
import io.vertx.redis.client.RedisAPI;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** The Vert.x client: commands, hashes. */
final class VertxRedis {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var r = RedisAPI.api(Redis.createClient(Vertx.vertx(), Show.URL));
                    show("set", got(r.set(List.of("a", "1", "EX", "60"))), got(r.incrby("a", "4")));
                    show("many", got(r.mget(List.of("a", "none"))), got(r.get("none")));
                    show("hash", got(r.hset(List.of("h", "f", "v"))), got(r.hgetall("h")));
                    show("script", got(r.eval(List.of("return ARGV[1]", "1", "k", "v"))));
                });
    }

    private static Object got(io.vertx.core.Future<?> future) throws Exception {
        return future.toCompletionStage().toCompletableFuture().get(10, TimeUnit.SECONDS);
    }
}
