package libraries;

import static libraries.Show.show;

import com.spotify.folsom.MemcacheClientBuilder;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Folsom: cache, many keys; over the text or the binary protocol. */
final class Folsom {
    public static void main(String[] arguments) {
        boolean binary = arguments.length > 0 && !Show.SETTING;
        Show.run(
                () -> {
                    var builder =
                            MemcacheClientBuilder.newStringClient()
                                    .withAddress(Show.HOST, Show.PORT);
                    var m = binary ? builder.connectBinary() : builder.connectAscii();
                    m.awaitConnected(5, TimeUnit.SECONDS);
                    show("set", m.set("a", "one", 60).toCompletableFuture().get());
                    show("get", m.get("a").toCompletableFuture().get());
                    show("add", m.add("a", "two", 60).toCompletableFuture().get());
                    show("many", m.get(List.of("a", "none")).toCompletableFuture().get());
                    show("delete", m.delete("a").toCompletableFuture().get());
                });
    }
}
