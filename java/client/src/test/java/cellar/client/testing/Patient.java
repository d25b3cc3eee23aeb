package cellar.client.testing;

import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import java.time.Duration;

/** Clients of tests that are not about time: a busy machine may take seconds for one answer. */
public final class Patient {
    /** As long as such a client waits for an answer, or for a connection. */
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private Patient() {}

    /** A builder as users have it, whose client waits for a minute. */
    public static CacheClientBuilder builder() {
        return CacheClient.builder().timeout(PATIENCE).connectTimeout(PATIENCE);
    }
}
