package cellar.client.internal.wire;

/** Changes the TTL of an item: {@code mg} with {@code T}, or {@code touch}. */
public final class TouchOperation extends Operation<Boolean> {
    private final byte[] key;
    private final long expiry;
    private boolean found;
    private boolean persisted;

    /** Touches {@code key}; {@code expiry} is from {@link Expiry}. */
    public TouchOperation(byte[] key, long expiry) {
        this.key = key;
        this.expiry = expiry;
    }

    @Override
    public void encode(Out out, Dialect dialect) {
        if (dialect.resp()) {
            encodeResp(out);
        } else if (dialect.meta()) {
            out.put("mg ").put(key).put(" T").put(expiry).end();
        } else {
            out.put("touch ").put(key).put(' ').put(expiry).end();
        }
    }

    /** {@code PERSIST} only reports whether there was a TTL, so {@code EXISTS} is sent after it. */
    private void encodeResp(Out out) {
        persisted = false;
        if (expiry == 0) {
            Resp.word(Resp.word(Resp.begin(out, 2), "PERSIST"), key);
            Resp.word(Resp.word(Resp.begin(out, 2), "EXISTS"), key);
        } else {
            Resp.word(Resp.begin(out, 3), Expiry.isRelative(expiry) ? "EXPIRE" : "EXPIREAT");
            Resp.word(Resp.word(out, key), expiry);
        }
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        if (dialect.resp() && expiry == 0 && !persisted && in.line()) {
            in.takeLine();
            persisted = true;
        }
        if (!in.line()) {
            return false;
        }
        if (dialect.resp() && in.begins(":")) {
            found = Resp.number(in) > 0;
            in.takeLine();
            return true;
        }
        found = dialect.meta() ? in.status() == MetaLine.DONE : in.is("TOUCHED");
        boolean missing = dialect.meta() ? in.status() == MetaLine.MISS : in.is("NOT_FOUND");
        if (!found && !missing) {
            return refused(in);
        }
        in.takeLine();
        return true;
    }

    @Override
    protected Boolean answer() {
        return found;
    }

    @Override
    public String name() {
        return "touch";
    }

    @Override
    public boolean isMiss() {
        return !found;
    }
}
