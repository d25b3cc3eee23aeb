package libraries;

import static libraries.Show.show;

import java.time.Duration;
import java.util.List;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.RedisScript;

/** Spring Data Redis: the template. */
final class SpringData {
    static LettuceConnectionFactory factory() {
        var factory = new LettuceConnectionFactory(Show.HOST, Show.PORT);
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }

    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var r = new StringRedisTemplate(factory());
                    var values = r.opsForValue();
                    values.set("a", "1", Duration.ofMinutes(1));
                    show("value", values.get("a"), values.increment("a", 4), values.get("none"));
                    show("many", values.multiGet(List.of("a", "none")), r.hasKey("a"));
                    r.opsForHash().put("h", "f", "v");
                    show("hash", r.opsForHash().entries("h"), r.opsForSet().add("s", "x"));
                    var script = RedisScript.of("return ARGV[1]", String.class);
                    show("script", r.execute(script, List.of("k"), "v"), r.delete("a"));
                });
    }
}
