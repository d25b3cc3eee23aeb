package cellar.client;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;

/** Finds the nodes again after each {@code period}. */
record Periodic(Callable<List<Node>> lookUp, Duration period) implements Discovery {
    @Override
    public List<Node> nodes() throws Exception {
        return lookUp.call();
    }
}
