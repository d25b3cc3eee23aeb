package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/** A request that is answered with one line: {@code version}, {@code mn}, {@code flush_all}. */
public final class LineOperation extends Operation<String> {
    private final String name;
    private final byte[] request;
    private @Nullable String line;

    /** Returns a request without effect, to check a connection. */
    public static LineOperation alive(Dialect dialect) {
        return dialect.resp()
                ? new LineOperation("ping", "PING\r\n")
                : new LineOperation("version", "version\r\n");
    }

    /** Sends {@code request}, which includes its line ends. */
    public LineOperation(String name, String request) {
        this.name = name;
        this.request = request.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public void encode(Out out, Dialect dialect) {
        out.put(request);
    }

    @Override
    public boolean decode(In in, Dialect dialect) {
        if (!in.line()) {
            return false;
        }
        line = in.text();
        if (dialect.resp() && line.startsWith("+")) {
            line = line.substring(1);
        }
        in.takeLine();
        return true;
    }

    @Override
    protected String answer() {
        String answer = line;
        if (answer == null) {
            throw new CacheException.Protocol("no answer to " + name);
        }
        return answer;
    }

    @Override
    public String name() {
        return name;
    }
}
