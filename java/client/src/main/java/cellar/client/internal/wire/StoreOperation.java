package cellar.client.internal.wire;

import cellar.client.CasOutcome;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Stores one item in one of six modes: {@code ms}, or {@code set} and similar commands. */
public final class StoreOperation extends Operation<CasOutcome> {
    /** The condition for the store, or where the value goes. */
    public enum Mode {
        /** Stores always. */
        SET("set", 'S'),
        /** Stores if there is no item. */
        ADD("add", 'E'),
        /** Stores if there is an item. */
        REPLACE("replace", 'R'),
        /** Appends to the item. */
        APPEND("append", 'A'),
        /** Prepends to the item. */
        PREPEND("prepend", 'P'),
        /** Stores if the item has the given version. */
        CAS("cas", 'S');

        private final String word;
        private final char letter;

        Mode(String word, char letter) {
            this.word = word;
            this.letter = letter;
        }
    }

    private final byte[] key;
    private final byte[] value;
    private final int flags;
    private final long expiry;
    private final Mode mode;
    private final long version;
    private boolean asksVersion;
    private long newVersion;
    private @Nullable CasOutcome outcome;

    /**
     * Stores {@code value} under {@code key}.
     *
     * @param expiry from {@link Expiry}
     * @param version for {@link Mode#CAS}, otherwise 0
     */
    public StoreOperation(
            byte[] key, byte[] value, int flags, long expiry, Mode mode, long version) {
        this.key = key;
        this.value = value;
        this.flags = flags;
        this.expiry = expiry;
        this.mode = mode;
        this.version = version;
    }

    /** Requests the new version of the item; meta only. */
    public StoreOperation askVersion() {
        asksVersion = true;
        return this;
    }

    /** Returns the new version of the item, if it was requested. */
    public long newVersion() {
        return newVersion;
    }

    @Override
    public int size() {
        return 64 + key.length + value.length;
    }

    @Override
    public void encode(Out out, Dialect dialect) {
        if (dialect.resp()) {
            encodeResp(out);
            return;
        }
        if (dialect.meta()) {
            encodeMeta(out);
        } else {
            out.put(mode.word).put(' ').put(key).put(' ').put(flags & 0xffffffffL);
            out.put(' ').put(expiry).put(' ').put(value.length);
            if (version != 0 || mode == Mode.CAS) {
                out.put(' ').put(version);
            }
            out.end();
        }
        out.put(value).end();
    }

    /** The Redis protocol has no flags, and only three modes are used with it. */
    private void encodeResp(Out out) {
        String option = mode == Mode.ADD ? "NX" : mode == Mode.REPLACE ? "XX" : "";
        Resp.begin(out, 3 + (expiry == 0 ? 0 : 2) + (option.isEmpty() ? 0 : 1));
        Resp.word(Resp.word(Resp.word(out, "SET"), key), value);
        if (expiry != 0) {
            Resp.word(Resp.word(out, Resp.expiryOption(expiry)), expiry);
        }
        if (!option.isEmpty()) {
            Resp.word(out, option);
        }
    }

    private void encodeMeta(Out out) {
        out.put("ms ").put(key).put(' ').put(value.length);
        if (flags != 0) {
            out.put(" F").put(flags & 0xffffffffL);
        }
        if (expiry != 0) {
            out.put(" T").put(expiry);
        }
        if (mode == Mode.CAS) {
            out.put(" C").put(version);
        } else if (mode != Mode.SET) {
            out.put(" M").put(mode.letter);
        }
        if (asksVersion) {
            out.put(" c");
        }
        out.end();
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        if (!in.line()) {
            return false;
        }
        CasOutcome read = dialect.meta() ? meta(in.status()) : classic(in);
        if (dialect.resp()) {
            read = resp(in);
        }
        if (read == null) {
            return refused(in);
        }
        outcome = read;
        if (asksVersion && dialect.meta()) {
            newVersion = in.meta().version();
        }
        in.takeLine();
        return true;
    }

    private static @Nullable CasOutcome meta(int status) {
        if (status == MetaLine.DONE) {
            return CasOutcome.STORED;
        }
        if (status == MetaLine.NOT_FOUND) {
            return CasOutcome.MISSING;
        }
        return status == MetaLine.NOT_STORED || status == MetaLine.EXISTS
                ? CasOutcome.CHANGED
                : null;
    }

    private static @Nullable CasOutcome resp(In in) {
        if (in.is("+OK")) {
            return CasOutcome.STORED;
        }
        return Resp.isNull(in) ? CasOutcome.CHANGED : null;
    }

    private static @Nullable CasOutcome classic(In in) {
        if (in.is("STORED")) {
            return CasOutcome.STORED;
        }
        if (in.is("NOT_FOUND")) {
            return CasOutcome.MISSING;
        }
        return in.is("NOT_STORED") || in.is("EXISTS") ? CasOutcome.CHANGED : null;
    }

    @Override
    protected CasOutcome answer() {
        return Objects.requireNonNull(outcome);
    }

    @Override
    public String name() {
        return mode.word;
    }
}
