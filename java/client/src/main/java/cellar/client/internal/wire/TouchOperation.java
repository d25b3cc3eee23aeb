package cellar.client.internal.wire;

/** Gives an item another TTL: {@code mg} with {@code T}, or {@code touch}. */
public final class TouchOperation extends Operation<Boolean> {
    private final byte[] key;
    private final long expiry;
    private boolean found;

    /** Touches {@code key}; {@code expiry} is from {@link Expiry}. */
    public TouchOperation(byte[] key, long expiry) {
        this.key = key;
        this.expiry = expiry;
    }

    @Override
    public void encode(Out out, Dialect dialect) {
        if (dialect.meta()) {
            out.put("mg ").put(key).put(" T").put(expiry).end();
        } else {
            out.put("touch ").put(key).put(' ').put(expiry).end();
        }
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        if (!in.line()) {
            return false;
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
