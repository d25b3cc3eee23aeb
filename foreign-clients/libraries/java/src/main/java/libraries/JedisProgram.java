package libraries;

import static libraries.Show.near;
import static libraries.Show.show;

import java.util.List;
import java.util.Map;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.params.SetParams;

/** Jedis: cache, hashes, transactions, scripts. */
final class JedisProgram {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    RedisClient r = RedisClient.create(Show.HOST, Show.PORT);
                    show("set", r.set("a", "1", SetParams.setParams().ex(60)), r.incrBy("a", 4));
                    show("get", r.get("a"), near(r.ttl("a"), 60), r.get("none"));
                    show("many", r.mset("x", "1", "y", "2"), r.mget("x", "none", "y"));
                    show("hash", r.hset("h", Map.of("f", "v")), r.hgetAll("h"));
                    show("sorted", r.zadd("z", 1, "a"), r.zrangeWithScores("z", 0, -1));
                    try (var transaction = r.multi()) {
                        transaction.incr("n");
                        transaction.get("n");
                        show("transaction", transaction.exec());
                    }
                    show("script", r.eval("return ARGV[1]", List.of("k"), List.of("v")));
                    show("delete", r.del("x", "none"), r.scan("0").getResult().size());
                });
    }
}
