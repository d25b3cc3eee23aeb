package cellar.client.internal.wire;

import cellar.client.CacheException;
import cellar.client.Node;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Asks a node of a cluster which node owns which slots: {@code CLUSTER SLOTS}.
 *
 * <p>Source: redis.io/docs/latest/commands/cluster-slots.
 */
public final class SlotsOperation extends Operation<List<SlotsOperation.Range>> {
    /** The number of slots. */
    public static final int SLOTS = 16384;

    /**
     * A range of slots of one node.
     *
     * @param first slot
     * @param last slot, inclusive
     * @param node that owns them
     */
    public record Range(int first, int last, Node node) {}

    private @Nullable List<Range> ranges;

    @Override
    public void encode(Out out, Dialect dialect) {
        if (!dialect.resp()) {
            throw new CacheException.Protocol("slots are asked for in Redis's protocol");
        }
        Resp.word(Resp.word(Resp.begin(out, 2), "CLUSTER"), "SLOTS");
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        if (!in.line()) {
            return false;
        }
        if (in.begins("-")) {
            return refused(in);
        }
        Object reply = new RespReader(in).next();
        if (reply == RespReader.INCOMPLETE) {
            return false;
        }
        ranges = parse(reply);
        return true;
    }

    private static List<Range> parse(@Nullable Object reply) {
        List<Range> ranges = new ArrayList<>();
        for (Object row : list(reply)) {
            List<?> parts = list(row);
            // After the slots comes the primary, then its replicas.
            List<?> place = list(part(parts, 2));
            Node node = Node.of(String.valueOf(part(place, 0)), number(part(place, 1)));
            int first = number(part(parts, 0));
            int last = number(part(parts, 1));
            if (first < 0 || last < first || last >= SLOTS) {
                throw new CacheException.Protocol("no slots: " + first + " to " + last);
            }
            ranges.add(new Range(first, last, node));
        }
        return ranges;
    }

    private static List<?> list(@Nullable Object part) {
        if (part instanceof List<?> list) {
            return list;
        }
        throw new CacheException.Protocol("no map of slots: " + part);
    }

    private static @Nullable Object part(List<?> parts, int index) {
        return index < parts.size() ? parts.get(index) : null;
    }

    private static int number(@Nullable Object part) {
        if (part instanceof Long number && number == number.intValue()) {
            return number.intValue();
        }
        throw new CacheException.Protocol("no number in a map of slots: " + part);
    }

    @Override
    protected List<Range> answer() {
        List<Range> answer = ranges;
        if (answer == null) {
            throw new CacheException.Protocol("no answer to cluster slots");
        }
        return answer;
    }

    @Override
    public String name() {
        return "cluster slots";
    }

    @Override
    public boolean isRepeatable() {
        return true;
    }
}
