package cellar.client.internal.cluster;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Items whose last change had no answer from the home, which alone may have executed it. When the
 * home answers again, its items are copied to all other nodes. If it does not, it is soon out, and
 * its items are no longer used.
 */
final class Unanswered {
    private static final int ITEMS_MAX = 10_000;
    private static final int ATTEMPTS_MAX = 100;
    private static final long AGAIN_MS = 100;

    /** Copies the home's item of a key to all other nodes. */
    interface Spread {
        /** Copies {@code found}, read from {@code home}, which is the home in {@code homes}. */
        void tell(Replica home, Homes homes, byte[] key, Found found);
    }

    private final Watch watch;
    private final Spread spread;
    private final Set<String> keys = ConcurrentHashMap.newKeySet();

    Unanswered(Watch watch, Spread spread) {
        this.watch = watch;
        this.spread = spread;
    }

    /** A change of {@code key} at {@code home} had no answer. */
    void add(Replica home, Homes homes, byte[] key) {
        String name = new String(key, StandardCharsets.ISO_8859_1);
        if (keys.size() < ITEMS_MAX && keys.add(name)) {
            ask(home, homes, key, name, 1);
        }
    }

    private void ask(Replica home, Homes homes, byte[] key, String name, int attempt) {
        if (watch.isClosed()
                || attempt > ATTEMPTS_MAX
                || !watch.staysHome(home, homes, Homes.hash(key))) {
            keys.remove(name);
            return;
        }
        home.home()
                .read(key)
                .whenComplete(
                        (found, failure) -> {
                            if (failure != null || !watch.isFresh()) {
                                watch.ticks()
                                        .later(
                                                AGAIN_MS,
                                                () -> ask(home, homes, key, name, attempt + 1));
                                return;
                            }
                            keys.remove(name);
                            if (watch.isHome(home, homes, Homes.hash(key))) {
                                spread.tell(home, homes, key, found);
                            }
                        });
    }
}
