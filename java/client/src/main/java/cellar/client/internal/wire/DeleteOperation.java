package cellar.client.internal.wire;

/** Deletes an item or marks it as stale: {@code md}, or {@code delete}. */
public final class DeleteOperation extends Operation<Boolean> {
    private final byte[] key;
    private final long stale_s;
    private final long version;
    private boolean found;

    /**
     * Deletes {@code key}; if {@code stale_s} is not 0, marks it as stale for that time instead.
     */
    public DeleteOperation(byte[] key, long stale_s) {
        this(key, stale_s, 0);
    }

    /**
     * As {@link #DeleteOperation(byte[], long)}; if {@code version} is not 0, only if the item has
     * it; meta only.
     */
    public DeleteOperation(byte[] key, long stale_s, long version) {
        this.key = key;
        this.stale_s = stale_s;
        this.version = version;
    }

    @Override
    public void encode(Out out, Dialect dialect) {
        if (dialect.resp()) {
            Resp.word(Resp.word(Resp.begin(out, 2), "DEL"), key);
        } else if (dialect.meta() && stale_s > 0) {
            out.put("md ").put(key).put(" I T").put(stale_s).end();
        } else if (dialect.meta()) {
            out.put("md ").put(key);
            if (version != 0) {
                out.put(" C").put(version);
            }
            out.end();
        } else {
            out.put("delete ").put(key).end();
        }
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        if (!in.line()) {
            return false;
        }
        if (dialect.resp() && in.begins(":")) {
            found = Resp.number(in) > 0;
            in.takeLine();
            return true;
        }
        found = dialect.meta() ? in.status() == MetaLine.DONE : in.is("DELETED");
        boolean missing = dialect.meta() ? isMissing(in.status()) : in.is("NOT_FOUND");
        if (!found && !missing) {
            return refused(in);
        }
        in.takeLine();
        return true;
    }

    private static boolean isMissing(int status) {
        return status == MetaLine.NOT_FOUND || status == MetaLine.EXISTS;
    }

    @Override
    protected Boolean answer() {
        return found;
    }

    @Override
    public String name() {
        return "delete";
    }

    @Override
    public boolean isMiss() {
        return !found;
    }
}
