package cellar.client.testing;

import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import java.time.Duration;

/** Clients for tests that do not test time: a busy machine may take seconds for one answer. */
public final class Patient {
    /** Time-out of requests and of connecting. */
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private Patient() {}

    /** Returns a builder of clients with a time-out of a minute. */
    public static CacheClientBuilder builder() {
        return CacheClient.builder().timeout(PATIENCE).connectTimeout(PATIENCE);
    }
}
