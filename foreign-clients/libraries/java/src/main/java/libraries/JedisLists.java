package libraries;

import static libraries.Show.show;

import redis.clients.jedis.RedisClient;

/** Jedis: lists. */
final class JedisLists {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    RedisClient r = RedisClient.create(Show.HOST, Show.PORT);
                    show("push", r.rpush("jobs", "a", "b", "c"), r.lrange("jobs", 0, -1));
                    show("pop", r.lpop("jobs"), r.blpop(1, "jobs"));
                });
    }
}
