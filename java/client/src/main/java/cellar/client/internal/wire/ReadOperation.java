package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Reads one item: {@code mg}, or {@code get} and {@code gets}. */
public final class ReadOperation<R extends @Nullable Object> extends Operation<R> {
    /** What is asked for beside the value. */
    public static final int FLAGS = 1;

    /** The version. */
    public static final int VERSION = 2;

    /** The time left; meta only. */
    public static final int TTL = 4;

    /** Everything but the value; meta only. */
    public static final int NO_VALUE = 8;

    /** The item is understood as one of replicated nodes, see {@link Mark}; needs the flags. */
    public static final int MARKED = 16;

    private final byte[] key;
    private final int wanted;
    private final Function<? super ReadOperation<R>, ? extends R> finisher;
    private long lease_s;
    private long early_s;
    private long known;
    private @Nullable Link knownFrom;
    private @Nullable Link link;

    private byte @Nullable [] bytes;
    private boolean inPlace;
    private byte @Nullable [] received;
    private int receivedAt;
    private int size_bytes;
    private boolean hit;
    private int flags;
    private long version;
    private long ttl_s = MetaLine.FOREVER;
    private boolean ttlKnown;
    private boolean won;
    private boolean waiting;
    private boolean stale;
    private int marked;
    private boolean ordered;
    private int home;
    private long order;

    /** Reads {@code key}; {@code finisher} makes the answer of what was found. */
    public ReadOperation(
            byte[] key, int wanted, Function<? super ReadOperation<R>, ? extends R> finisher) {
        this.key = key;
        this.wanted = wanted;
        this.finisher = finisher;
    }

    /** Asks for a lease on a miss, and on items with less than {@code early_s} left; meta only. */
    public ReadOperation<R> lease(long lease_s, long early_s) {
        this.lease_s = lease_s;
        this.early_s = early_s;
        return this;
    }

    /**
     * Leaves the value out if the version is {@code known}, where that can be said: over the
     * connection {@code from} that told it, to a server with a conditional get.
     */
    public ReadOperation<R> unless(long known, @Nullable Link from) {
        this.known = known;
        this.knownFrom = from;
        return this;
    }

    /**
     * Leaves the value where it was received: {@link #bytes} stays null, {@link #received} is for
     * the finisher only, which must be done with it when it returns.
     */
    public ReadOperation<R> inPlace() {
        inPlace = true;
        return this;
    }

    @Override
    public @Nullable Link prefers() {
        return known == 0 ? null : knownFrom;
    }

    @Override
    public void goesOver(Link link) {
        this.link = link;
    }

    @Override
    public void encode(Out out, Dialect dialect) {
        hit = false;
        marked = 0;
        if (dialect.resp()) {
            encodeResp(out);
            return;
        }
        if (!dialect.meta()) {
            out.put((wanted & VERSION) != 0 ? "gets " : "get ").put(key).end();
            return;
        }
        out.put("mg ").put(key);
        if ((wanted & NO_VALUE) == 0) {
            out.put(" v");
        }
        if ((wanted & FLAGS) != 0) {
            out.put(" f");
        }
        if ((wanted & TTL) != 0) {
            out.put(" t");
        }
        if ((wanted & VERSION) != 0) {
            out.put(" c");
        }
        if (known != 0 && dialect.conditionalGet() && link != null && link == knownFrom) {
            out.put(" C").put(known);
        }
        if (lease_s > 0) {
            out.put(" N").put(lease_s);
        }
        if (early_s > 0) {
            out.put(" R").put(early_s);
        }
        out.end();
    }

    /** The time left is asked for first; whoever trusts it has to be told of changes. */
    private void encodeResp(Out out) {
        ttlKnown = false;
        if ((wanted & TTL) != 0) {
            Resp.word(Resp.word(Resp.begin(out, 2), "PTTL"), key);
        }
        Resp.word(Resp.word(Resp.begin(out, 2), "GET"), key);
    }

    private boolean decodeResp(In in) {
        if ((wanted & TTL) != 0 && !ttlKnown) {
            // Where one is refused the other is, too; if not, the value is not to be kept.
            boolean refused = in.begins("-");
            if (!refused && !in.begins(":")) {
                throw new CacheException.Protocol("PTTL was answered with " + in.text());
            }
            long left_ms = refused ? 0 : Resp.number(in);
            ttl_s = left_ms < 0 ? MetaLine.FOREVER : left_ms / 1000;
            ttlKnown = true;
            in.takeLine();
            if (!in.line()) {
                return false;
            }
        }
        if (!in.begins("$")) {
            return refused(in);
        }
        if (Resp.isNull(in)) {
            in.takeLine();
            return true;
        }
        int size = Resp.length(in);
        if (!in.hasBlock(size)) {
            return false;
        }
        hit = true;
        takeValue(in, size);
        return true;
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        if (!in.line()) {
            return false;
        }
        if (dialect.resp()) {
            return decodeResp(in);
        }
        return dialect.meta() ? decodeMeta(in) : decodeClassic(in);
    }

    private boolean decodeMeta(In in) {
        int status = in.status();
        if (status == MetaLine.MISS) {
            in.takeLine();
            return true;
        }
        if (status != MetaLine.VALUE && status != MetaLine.DONE) {
            return refused(in);
        }
        MetaLine line = in.meta();
        if (status == MetaLine.VALUE && !in.hasBlock(line.size_bytes())) {
            return false;
        }
        hit = true;
        flags = line.flags();
        version = line.version();
        ttl_s = line.ttl_s();
        ttlKnown = (wanted & TTL) != 0;
        won = line.won();
        waiting = line.waiting();
        stale = line.stale();
        if (status == MetaLine.VALUE) {
            takeValue(in, line.size_bytes());
        } else {
            in.takeLine();
        }
        if ((wanted & MARKED) != 0) {
            unmark();
        }
        return true;
    }

    /** The trace of a removal is a miss. */
    private void unmark() {
        marked = flags;
        flags = Mark.user(marked);
        ordered = Mark.isOrdered(marked, size_bytes);
        size_bytes = Mark.size_bytes(marked, size_bytes);
        byte[] whole = bytes;
        if (whole != null) {
            home = Mark.home(marked, whole);
            order = Mark.order(marked, whole);
            bytes = Mark.value(marked, whole);
        }
        stale |= Mark.kind(marked) == Mark.Kind.STALE;
        if (isGone()) {
            hit = false;
            bytes = null;
            received = null;
        }
    }

    private boolean decodeClassic(In in) {
        if (in.is("END")) {
            in.takeLine();
            return true;
        }
        if (hit || !in.begins("VALUE ")) {
            return refused(in);
        }
        int size = MetaLine.size(in.number(3));
        if (!in.hasBlock(size)) {
            return false;
        }
        hit = true;
        flags = (int) in.number(2);
        version = in.words() > 4 ? in.number(4) : 0;
        size_bytes = size;
        // The last line may come later, and what is received before it may move the value.
        bytes = in.takeBlock(size);
        return decode(in, Dialect.CLASSIC);
    }

    private void takeValue(In in, int length) {
        size_bytes = length;
        if (inPlace) {
            receivedAt = in.skipBlock(length);
            received = in.array();
        } else {
            bytes = in.takeBlock(length);
        }
    }

    @Override
    protected R answer() {
        try {
            return finisher.apply(this);
        } finally {
            received = null;
        }
    }

    @Override
    public String name() {
        return "get";
    }

    @Override
    public boolean isRepeatable() {
        return lease_s == 0;
    }

    @Override
    public boolean isMiss() {
        return !hit;
    }

    /** What the item carries beside its value, if it was asked for as {@link #MARKED}. */
    public int marked() {
        return marked;
    }

    /** Whether the item was removed, and its trace is still there. */
    public boolean isGone() {
        return Mark.kind(marked) == Mark.Kind.GONE;
    }

    /** Whether the item is a copy that knows its order. */
    public boolean isOrdered() {
        return ordered;
    }

    /** The home that the item was copied from, if it is ordered. */
    public int home() {
        return home;
    }

    /** The version that the item had at its home, if it is ordered. */
    public long order() {
        return order;
    }

    /** Whether there is such an item. */
    public boolean hit() {
        return hit;
    }

    /** The value; null on a miss, and where it was left out. */
    public byte @Nullable [] bytes() {
        return bytes;
    }

    /** What holds the value of a read {@link #inPlace}, while the finisher runs. */
    public byte @Nullable [] received() {
        return received;
    }

    /** Where in {@link #received} the value begins. */
    public int receivedAt() {
        return receivedAt;
    }

    /** How many bytes the value has. */
    public int size_bytes() {
        return size_bytes;
    }

    /** The item's flags. */
    public int flags() {
        return flags;
    }

    /** The item's version, 0 if it was not asked for. */
    public long version() {
        return version;
    }

    /** The connection that told the version; null if it was one on which callers wait. */
    public @Nullable Link link() {
        return link;
    }

    /** Seconds left, {@link MetaLine#FOREVER} for ever. */
    public long ttl_s() {
        return ttl_s;
    }

    /** Whether the server said how many; the classic dialect does not. */
    public boolean knowsTtl() {
        return ttlKnown;
    }

    /** Whether the caller is to load the value. */
    public boolean won() {
        return won;
    }

    /** Whether somebody else is loading the value. */
    public boolean waiting() {
        return waiting;
    }

    /** Whether the item was invalidated. */
    public boolean stale() {
        return stale;
    }
}
