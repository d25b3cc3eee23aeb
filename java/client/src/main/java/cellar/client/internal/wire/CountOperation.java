package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/** Changes a number: {@code ma}, or {@code incr} and {@code decr}. */
public final class CountOperation extends Operation<@Nullable Long> {
    /** Source: memcached pads a number that has become shorter with spaces, up to this length. */
    private static final int NUMBER_BYTES_MAX = 24;

    /** Does what meta commands do in one step. A negative result becomes 0, as in memcached. */
    private static final String SCRIPT =
            "local v=redis.call('get',KEYS[1]) if not v then "
                    + "if ARGV[2]=='-1' then return false end "
                    + "if ARGV[3]=='0' then redis.call('set',KEYS[1],ARGV[2]) "
                    + "else redis.call('set',KEYS[1],ARGV[2],ARGV[4],ARGV[3]) end "
                    + "return ARGV[2] end "
                    + "if ARGV[5]=='up' then redis.call('incrby',KEYS[1],ARGV[1]) "
                    + "elseif redis.call('decrby',KEYS[1],ARGV[1])<0 then "
                    + "redis.call('set',KEYS[1],'0','KEEPTTL') end "
                    + "return redis.call('get',KEYS[1])";

    private final byte[] key;
    private final long by;
    private final boolean down;
    private final long initial;
    private final long expiry;
    private byte @Nullable [] digits;
    private long ttl_s = MetaLine.FOREVER;
    private boolean ttlKnown;

    /**
     * Adds {@code by}, or subtracts it if {@code down}.
     *
     * @param initial stored if there is no number; -1 to store nothing; meta only
     * @param expiry of {@code initial}, from {@link Expiry}
     */
    public CountOperation(byte[] key, long by, boolean down, long initial, long expiry) {
        this.key = key;
        this.by = by;
        this.down = down;
        this.initial = initial;
        this.expiry = expiry;
    }

    @Override
    public void encode(Out out, Dialect dialect) {
        if (dialect.resp()) {
            encodeResp(out);
            return;
        }
        if (!dialect.meta()) {
            out.put(down ? "decr " : "incr ").put(key).put(' ').put(by).end();
            return;
        }
        out.put("ma ").put(key).put(" v t D").put(by);
        if (down) {
            out.put(" MD");
        }
        if (initial >= 0) {
            out.put(" N").put(expiry).put(" J").put(initial);
        }
        out.end();
    }

    private void encodeResp(Out out) {
        Resp.word(Resp.word(Resp.begin(out, 9), "EVAL"), SCRIPT);
        Resp.word(Resp.word(Resp.word(out, 1), key), by);
        Resp.word(Resp.word(out, initial), expiry);
        Resp.word(Resp.word(out, Resp.expiryOption(expiry)), down ? "down" : "up");
    }

    private boolean decodeResp(In in) {
        if (!in.begins("$")) {
            return refused(in);
        }
        if (Resp.isNull(in)) {
            in.takeLine();
            return true;
        }
        int size = Resp.length(in);
        if (size > NUMBER_BYTES_MAX) {
            throw new CacheException.Protocol("a number of " + size + " bytes");
        }
        if (!in.hasBlock(size)) {
            return false;
        }
        digits = in.takeBlock(size);
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
        if (isMissing(status)) {
            in.takeLine();
            return true;
        }
        if (status != MetaLine.VALUE) {
            return refused(in);
        }
        MetaLine line = in.meta();
        if (line.size_bytes() > NUMBER_BYTES_MAX) {
            throw new CacheException.Protocol("a number of " + line.size_bytes() + " bytes");
        }
        if (!in.hasBlock(line.size_bytes())) {
            return false;
        }
        ttl_s = line.ttl_s();
        ttlKnown = true;
        digits = in.takeBlock(line.size_bytes());
        return true;
    }

    /** A creation that lost a race is reported like a miss, and the caller retries. */
    private static boolean isMissing(int status) {
        return status == MetaLine.NOT_FOUND
                || status == MetaLine.NOT_STORED
                || status == MetaLine.EXISTS;
    }

    private boolean decodeClassic(In in) {
        if (in.is("NOT_FOUND")) {
            in.takeLine();
            return true;
        }
        String text = in.text();
        if (text.isEmpty() || !Character.isDigit(text.charAt(0))) {
            return refused(in);
        }
        digits = text.getBytes(StandardCharsets.US_ASCII);
        in.takeLine();
        return true;
    }

    /** Parses {@code digits}, with spaces around the number. */
    public static long parse(byte[] digits) {
        String text = new String(digits, StandardCharsets.US_ASCII).strip();
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException e) {
            throw new CacheException.Coding("not a counter: " + text, e);
        }
    }

    @Override
    protected @Nullable Long answer() {
        return digits == null ? null : parse(digits);
    }

    /**
     * Returns the remaining TTL in seconds; {@link MetaLine#FOREVER} if it is unlimited or unknown.
     */
    public long ttl_s() {
        return ttl_s;
    }

    /** Whether the server sent the TTL; the classic dialect does not have it. */
    public boolean knowsTtl() {
        return ttlKnown;
    }

    @Override
    public String name() {
        return down ? "decrement" : "increment";
    }

    @Override
    public boolean isMiss() {
        return digits == null;
    }
}
