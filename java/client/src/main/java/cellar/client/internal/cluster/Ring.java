package cellar.client.internal.cluster;

import cellar.client.Node;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The ketama ring of libmemcached, twemproxy and spymemcached: maps a key to a node.
 *
 * <p>Each node has points on a ring of 32 bits. The MD5 of {@code name-0}, {@code name-1}, ...
 * gives four points each; the weight determines how many hashes. A key belongs to the first point
 * at or after its own.
 *
 * <p>Source: libmemcached's {@code MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED}; twemproxy's {@code
 * nc_ketama.c}. Test vectors: RingTest.
 */
public final class Ring {
    private static final int POINTS_PER_DIGEST = 4;
    private static final int POINTS_PER_NODE = 160;
    private static final double ROUNDING = 0.0000000001;

    private final long[] points;
    private final List<Node> nodes;

    /** Creates the ring of {@code nodes}, at least one. */
    public Ring(List<Node> nodes) {
        this.nodes = List.copyOf(nodes);
        long weights = nodes.stream().mapToLong(Node::weight).sum();
        List<Long> all = new ArrayList<>();
        for (int index = 0; index < nodes.size(); index++) {
            Node node = nodes.get(index);
            for (int i = 0; i < digests(node.weight(), weights, nodes.size()); i++) {
                byte[] digest = md5(label(node) + "-" + i);
                for (int part = 0; part < POINTS_PER_DIGEST; part++) {
                    all.add(point(digest, part * 4) << 32 | index);
                }
            }
        }
        points = all.stream().mapToLong(Long::longValue).toArray();
        sortUnsigned();
    }

    /**
     * Points are unsigned; inverting the highest bit makes signed numbers sort in the same order.
     */
    private void sortUnsigned() {
        for (int i = 0; i < points.length; i++) {
            points[i] ^= Long.MIN_VALUE;
        }
        Arrays.sort(points);
    }

    /**
     * Source: libmemcached calculates in single precision and rounds down after adding a small
     * value.
     */
    private static int digests(int weight, long weights, int count) {
        float share = (float) weight / (float) weights;
        float digests = share * POINTS_PER_NODE / POINTS_PER_DIGEST * (float) count;
        return (int) Math.floor((float) (digests + ROUNDING));
    }

    private static String label(Node node) {
        if (!node.name().isEmpty()) {
            return node.name();
        }
        return node.port() == Node.PORT ? node.host() : node.address();
    }

    /** Returns the node of {@code key}. */
    public Node node(byte[] key) {
        return nodes.get(index(key, 0));
    }

    /** Returns the nodes of {@code key} in failover order. */
    public List<Node> order(byte[] key) {
        List<Node> order = new ArrayList<>();
        for (int step = 0; step < points.length && order.size() < nodes.size(); step++) {
            Node node = nodes.get(index(key, step));
            if (!order.contains(node)) {
                order.add(node);
            }
        }
        return order;
    }

    private int index(byte[] key, int step) {
        long from = point(md5(key), 0) << 32 ^ Long.MIN_VALUE;
        int found = Arrays.binarySearch(points, from);
        int first = found >= 0 ? found : -found - 1;
        return (int) points[(first + step) % points.length];
    }

    private static long point(byte[] digest, int at) {
        return (digest[at + 3] & 0xffL) << 24
                | (digest[at + 2] & 0xffL) << 16
                | (digest[at + 1] & 0xffL) << 8
                | (digest[at] & 0xffL);
    }

    private static byte[] md5(String text) {
        return md5(text.getBytes(StandardCharsets.UTF_8));
    }

    private static byte[] md5(byte[] bytes) {
        try {
            return MessageDigest.getInstance("MD5").digest(bytes);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has MD5", e);
        }
    }
}
