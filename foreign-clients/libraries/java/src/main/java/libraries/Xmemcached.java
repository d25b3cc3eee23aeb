package libraries;

import static libraries.Show.show;

import java.util.List;
import java.util.TreeMap;
import net.rubyeye.xmemcached.XMemcachedClient;

/** XMemcached: cache, counters, compare and set, many keys. */
final class Xmemcached {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var m = new XMemcachedClient(Show.HOST, Show.PORT);
                    show("set", m.set("a", 60, "one"), m.<String>get("a"), m.add("a", 60, "x"));
                    show("count", m.incr("n", 1, 5), m.incr("n", 4), m.decr("n", 1));
                    show("many", new TreeMap<>(m.<String>get(List.of("a", "none"))));
                    show("cas", m.cas("a", 60, "two", m.gets("a").getCas()), m.<String>get("a"));
                    show("delete", m.touch("a", 30), m.delete("a"), m.<String>get("a"));
                });
    }
}
