package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/** Reads many items of one node in one batch; misses have no reply in the meta protocol. */
public final class ReadManyOperation<V> extends Operation<Map<String, V>> {
    private static final int CLASSIC_LINE_BYTES_MAX = 2000;

    private final List<String> keys;
    private final List<byte[]> keyBytes;
    private final BiFunction<byte[], Integer, V> decoder;
    private final byte[][] values;
    private final int[] flags;
    private final Map<String, Integer> classicIndex = new HashMap<>();
    private final boolean marked;
    private int classicLines;
    private int answered;

    /**
     * Reads {@code keys}, encoded as {@code keyBytes}.
     *
     * @param marked whether they are items of replicated nodes, see {@link Mark}
     */
    public ReadManyOperation(
            List<String> keys,
            List<byte[]> keyBytes,
            BiFunction<byte[], Integer, V> decoder,
            boolean marked) {
        this.marked = marked;
        this.keys = keys;
        this.keyBytes = keyBytes;
        this.decoder = decoder;
        this.values = new byte[keys.size()][];
        this.flags = new int[keys.size()];
    }

    @Override
    public int size() {
        return 64 * keys.size();
    }

    @Override
    public void encode(Out out, Dialect dialect) {
        if (dialect.resp()) {
            answered = -1;
            Resp.word(Resp.begin(out, 1 + keyBytes.size()), "MGET");
            keyBytes.forEach(key -> Resp.word(out, key));
        } else if (dialect.meta()) {
            for (int i = 0; i < keyBytes.size(); i++) {
                out.put("mg ").put(keyBytes.get(i)).put(" v f q O").put(i).end();
            }
            out.put("mn").end();
        } else {
            encodeClassic(out);
        }
    }

    private void encodeClassic(Out out) {
        classicLines = 0;
        int lineBytes = CLASSIC_LINE_BYTES_MAX;
        for (int i = 0; i < keyBytes.size(); i++) {
            byte[] key = keyBytes.get(i);
            if (lineBytes + key.length >= CLASSIC_LINE_BYTES_MAX) {
                if (i > 0) {
                    out.end();
                }
                out.put("get");
                classicLines++;
                lineBytes = 0;
            }
            out.put(' ').put(key);
            lineBytes += key.length + 1;
            classicIndex.put(new String(key, StandardCharsets.UTF_8), i);
        }
        out.end();
    }

    private boolean decodeResp(In in) {
        while (answered < keys.size() && in.line()) {
            if (answered < 0) {
                if (!in.begins("*")) {
                    return refused(in);
                }
                if (Resp.number(in) != keys.size()) {
                    throw new CacheException.Protocol("getMany was answered with " + in.text());
                }
                in.takeLine();
            } else if (Resp.isNull(in)) {
                in.takeLine();
            } else if (!in.begins("$")) {
                throw new CacheException.Protocol("getMany was answered with " + in.text());
            } else if (!take(in, answered, Resp.length(in), 0)) {
                return false;
            }
            answered++;
        }
        return answered == keys.size();
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        if (dialect.resp()) {
            return decodeResp(in);
        }
        while (in.line()) {
            if (dialect.meta() && in.is("MN")) {
                in.takeLine();
                return true;
            }
            if (!dialect.meta() && in.is("END")) {
                in.takeLine();
                classicLines--;
                if (classicLines == 0) {
                    return true;
                }
                continue;
            }
            boolean taken = dialect.meta() ? takeMeta(in) : takeClassic(in);
            if (!taken) {
                return false;
            }
        }
        return false;
    }

    private boolean takeMeta(In in) {
        if (in.status() != MetaLine.VALUE) {
            throw new CacheException.Protocol("getMany was answered with " + in.text());
        }
        MetaLine line = in.meta();
        return take(in, line.opaque(), line.size_bytes(), line.flags());
    }

    private boolean takeClassic(In in) {
        String[] words = in.text().split(" ");
        Integer index = words.length < 4 ? null : classicIndex.get(words[1]);
        if (!words[0].equals("VALUE") || index == null) {
            throw new CacheException.Protocol("getMany was answered with " + in.text());
        }
        return take(in, index, MetaLine.size(in.number(3)), (int) in.number(2));
    }

    private boolean take(In in, int index, int size, int itemFlags) {
        if (index < 0 || index >= values.length) {
            throw new CacheException.Protocol("getMany was answered for another key");
        }
        if (!in.hasBlock(size)) {
            return false;
        }
        values[index] = in.takeBlock(size);
        flags[index] = itemFlags;
        return true;
    }

    @Override
    protected Map<String, V> answer() {
        Map<String, V> found = new HashMap<>(values.length * 2);
        for (int i = 0; i < values.length; i++) {
            byte @Nullable [] bytes = values[i];
            if (bytes != null && !marked) {
                found.put(keys.get(i), decoder.apply(bytes, flags[i]));
            } else if (bytes != null && Mark.kind(flags[i]) != Mark.Kind.GONE) {
                byte[] value = Mark.value(flags[i], bytes);
                found.put(keys.get(i), decoder.apply(value, Mark.user(flags[i])));
            }
        }
        return found;
    }

    @Override
    public String name() {
        return "get_many";
    }

    @Override
    public boolean isRepeatable() {
        return true;
    }
}
