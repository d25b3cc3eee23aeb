package libraries;

import static libraries.Show.near;
import static libraries.Show.show;

import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Lettuce: cache, hashes, transactions, scripts, subscriptions. */
final class LettuceProgram {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    RedisClient client = RedisClient.create(Show.URL);
                    var r = client.connect().sync();
                    show("set", r.set("a", "1", SetArgs.Builder.ex(60)), r.incrby("a", 4));
                    show("get", r.get("a"), near(r.ttl("a"), 60), r.get("none"));
                    show("many", r.mset(Map.of("x", "1")), r.mget("x", "none"));
                    show("hash", r.hset("h", Map.of("f", "v")), r.hgetall("h"));
                    r.multi();
                    r.incr("n");
                    show("transaction", r.exec().get(0).toString());
                    String[] keys = {"k"};
                    show("script", r.<String>eval("return ARGV[1]", ScriptOutputType.VALUE, keys, "v"));
                    var heard = new CompletableFuture<String>();
                    var listener = client.connectPubSub();
                    listener.addListener(
                            new RedisPubSubAdapter<String, String>() {
                                @Override
                                public void message(String channel, String message) {
                                    heard.complete(message);
                                }
                            });
                    listener.sync().subscribe("news");
                    show("published", r.publish("news", "hello"), heard.get(10, TimeUnit.SECONDS));
                });
    }
}
