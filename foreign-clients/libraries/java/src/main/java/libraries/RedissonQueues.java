package libraries;

import static libraries.Show.show;

import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.config.Config;

/** Redisson: lists and queues. */
final class RedissonQueues {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var config = new Config();
                    config.useSingleServer()
                            .setAddress(Show.URL)
                            .setConnectionMinimumIdleSize(1)
                            .setRetryAttempts(1);
                    var r = Redisson.create(config);
                    var queue = r.<String>getBlockingQueue("jobs");
                    show("queue", queue.add("a"), queue.poll(1, TimeUnit.SECONDS), queue.size());
                    var list = r.<String>getList("list");
                    show("list", list.add("x"), list.get(0));
                });
    }
}
