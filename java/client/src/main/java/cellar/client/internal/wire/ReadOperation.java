package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Reads one item: {@code mg}, or {@code get} and {@code gets}. */
public final class ReadOperation<R extends @Nullable Object> extends Operation<R> {
    /** Requests the flags besides the value. */
    public static final int FLAGS = 1;

    /** Requests the version. */
    public static final int VERSION = 2;

    /** Requests the remaining TTL; meta only. */
    public static final int TTL = 4;

    /** Requests everything except the value; meta only. */
    public static final int NO_VALUE = 8;

    /** Decodes the item as one of replicated nodes, see {@link Mark}; needs the flags. */
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

    /** Reads {@code key}; {@code finisher} converts the read to the answer. */
    public ReadOperation(
            byte[] key, int wanted, Function<? super ReadOperation<R>, ? extends R> finisher) {
        this.key = key;
        this.wanted = wanted;
        this.finisher = finisher;
    }

    /** Requests a lease on a miss and for items with less than {@code early_s} left; meta only. */
    public ReadOperation<R> lease(long lease_s, long early_s) {
        this.lease_s = lease_s;
        this.early_s = early_s;
        return this;
    }

    /**
     * Omits the value if its version is {@code known}. This works over the connection {@code from}
     * that delivered the version, and with servers that support a conditional get.
     */
    public ReadOperation<R> unless(long known, @Nullable Link from) {
        this.known = known;
        this.knownFrom = from;
        return this;
    }

    /**
     * Leaves the value in the receive buffer. {@link #bytes} stays null, and {@link #received} is
     * only valid while the finisher runs.
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

    /** Reads the TTL before the value, so it is only valid if later changes are tracked. */
    private void encodeResp(Out out) {
        ttlKnown = false;
        if ((wanted & TTL) != 0) {
            Resp.word(Resp.word(Resp.begin(out, 2), "PTTL"), key);
        }
        Resp.word(Resp.word(Resp.begin(out, 2), "GET"), key);
    }

    private boolean decodeResp(In in) {
        if ((wanted & TTL) != 0 && !ttlKnown) {
            // If one command is rejected, so is the other; otherwise the value must not be kept.
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

    /** A tombstone is a miss. */
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
        // The last line may arrive later, and receiving bytes before it may move the value.
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

    /** Returns the mark in the item's flags, if it was read with {@link #MARKED}. */
    public int marked() {
        return marked;
    }

    /** Whether the item was deleted and its tombstone still exists. */
    public boolean isGone() {
        return Mark.kind(marked) == Mark.Kind.GONE;
    }

    /** Whether the item is a copy with an order. */
    public boolean isOrdered() {
        return ordered;
    }

    /** Returns the home that the item was copied from, if it has an order. */
    public int home() {
        return home;
    }

    /** Returns the version that the item had at its home, if it has an order. */
    public long order() {
        return order;
    }

    /** Whether the item exists. */
    public boolean hit() {
        return hit;
    }

    /** Returns the value; null on a miss and if it was omitted. */
    public byte @Nullable [] bytes() {
        return bytes;
    }

    /** Returns the buffer with the value of a read {@link #inPlace}, while the finisher runs. */
    public byte @Nullable [] received() {
        return received;
    }

    /** Returns the position of the value in {@link #received}. */
    public int receivedAt() {
        return receivedAt;
    }

    /** Returns the size of the value in bytes. */
    public int size_bytes() {
        return size_bytes;
    }

    /** Returns the item's flags. */
    public int flags() {
        return flags;
    }

    /** Returns the item's version, 0 if it was not requested. */
    public long version() {
        return version;
    }

    /** Returns the connection that delivered the version; null if it was one of blocking calls. */
    public @Nullable Link link() {
        return link;
    }

    /** Returns the remaining TTL in seconds, {@link MetaLine#FOREVER} if it is unlimited. */
    public long ttl_s() {
        return ttl_s;
    }

    /** Whether the server sent the TTL; the classic dialect does not have it. */
    public boolean knowsTtl() {
        return ttlKnown;
    }

    /** Whether the caller has won the lease and must load the value. */
    public boolean won() {
        return won;
    }

    /** Whether another caller is loading the value. */
    public boolean waiting() {
        return waiting;
    }

    /** Whether the item was invalidated. */
    public boolean stale() {
        return stale;
    }
}
