package libraries;

import static libraries.Show.show;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.TreeMap;
import net.spy.memcached.BinaryConnectionFactory;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;

/** spymemcached: cache, counters, compare and set, many keys, over the text or binary protocol. */
final class Spymemcached {
    public static void main(String[] arguments) {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SLF4JLogger");
        boolean binary = arguments.length > 0 && !Show.SETTING;
        var factory = binary ? new BinaryConnectionFactory() : new DefaultConnectionFactory();
        Show.run(
                () -> {
                    var address = new InetSocketAddress(Show.HOST, Show.PORT);
                    var m = new MemcachedClient(factory, List.of(address));
                    show("set", m.set("a", 60, "one").get(), m.get("a"), m.add("a", 60, "x").get());
                    show("count", m.incr("n", 1, 5), m.incr("n", 4), m.decr("n", 1));
                    show("many", new TreeMap<>(m.getBulk("a", "none")), m.touch("a", 30).get());
                    show("cas", m.cas("a", m.gets("a").getCas(), "two"), m.get("a"));
                    show("delete", m.delete("a").get(), m.get("a"), m.flush().get());
                });
    }
}
