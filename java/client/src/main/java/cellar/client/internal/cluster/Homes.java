package cellar.client.internal.cluster;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The homes of keys in a view. Each key has an order of the nodes, derived from its hash and their
 * names. The first node that is in is the key's home.
 */
final class Homes {
    private final View view;
    private final @Nullable Replica[] in;
    private final long[] seeds;

    Homes(View view, Map<String, Replica> replicas) {
        List<String> names = view.nodes(View.State.IN);
        this.view = view;
        this.in = names.stream().map(replicas::get).toArray(Replica[]::new);
        this.seeds =
                names.stream()
                        .mapToLong(name -> hash(name.getBytes(StandardCharsets.UTF_8)))
                        .toArray();
    }

    View view() {
        return view;
    }

    /** Returns the number of nodes that are in. */
    int count() {
        return in.length;
    }

    /** Returns the nodes that are in and in this client's list. */
    List<Replica> known() {
        return Arrays.stream(in).filter(Objects::nonNull).toList();
    }

    boolean isIn(Replica replica) {
        return view.state(replica.name()) == View.State.IN;
    }

    /** Returns a number that identifies a node as long as it is in. */
    int numberOf(Replica node) {
        byte[] name = node.name().getBytes(StandardCharsets.UTF_8);
        return (int) (hash(name) * 31 + view.number(node.name()));
    }

    /** Returns the key's home; null if there is none or it is not in this client's list. */
    @Nullable Replica home(long hash) {
        return best(hash, List.of());
    }

    /** Returns the key's home without {@code other}. */
    @Nullable Replica next(long hash, Replica other) {
        return best(hash, List.of(other));
    }

    /** Returns the key's home without {@code others}. */
    @Nullable Replica next(long hash, List<Replica> others) {
        return best(hash, others);
    }

    private @Nullable Replica best(long hash, List<Replica> except) {
        Replica best = null;
        long bestScore = 0;
        boolean found = false;
        for (int i = 0; i < in.length; i++) {
            Replica replica = in[i];
            if (replica != null && except.contains(replica)) {
                continue;
            }
            long score = score(hash, seeds[i]);
            if (!found || score > bestScore) {
                found = true;
                best = replica;
                bestScore = score;
            }
        }
        return best;
    }

    static long hash(byte[] key) {
        long hash = 0xcbf29ce484222325L;
        for (byte b : key) {
            hash = (hash ^ b & 0xff) * 0x100000001b3L;
        }
        return hash;
    }

    private static long score(long hash, long seed) {
        long mixed = (hash ^ seed * 0x9e3779b97f4a7c15L) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94d049bb133111ebL;
        return mixed ^ mixed >>> 31;
    }
}
