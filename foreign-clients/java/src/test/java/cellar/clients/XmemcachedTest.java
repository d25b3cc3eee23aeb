package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import net.rubyeye.xmemcached.CommandFactory;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.TextCommandFactory;
import org.junit.jupiter.api.Test;

/** xmemcached: a pool of connections, synchronous, merges waiting gets into one request. */
class XmemcachedTest extends TextClientContract {
    private static final int NEVER = 0;
    private static final int CONNECTIONS = 4;

    /** What is spoken. */
    CommandFactory commands() {
        return new TextCommandFactory();
    }

    private MemcachedClient open() throws Exception {
        XMemcachedClientBuilder settings = new XMemcachedClientBuilder(List.of(SERVER));
        settings.setCommandFactory(commands());
        settings.setConnectionPoolSize(CONNECTIONS);
        settings.setOpTimeout(60_000);
        return settings.build();
    }

    @Override
    TextClient connect() throws Exception {
        return new Adapter(open());
    }

    @Test
    void requestsWithoutReplyTakeEffect() throws Exception {
        MemcachedClient client = open();
        try {
            client.flushAll();
            // Connections of the pool race with each other, so each request has its own key.
            for (int i = 0; i < 200; i++) {
                client.setWithNoReply("quiet-" + i, NEVER, "value-" + i);
            }
            for (int i = 0; i < 200; i++) {
                waitFor(client, "quiet-" + i, "value-" + i);
            }
        } finally {
            client.shutdown();
        }
    }

    @Test
    void aCounterWithAnInitialValueStartsThere() throws Exception {
        MemcachedClient client = open();
        try {
            client.flushAll();
            assertEquals(100, client.incr("fresh", 1, 100));
            assertEquals(101, client.incr("fresh", 1, 100));
        } finally {
            client.shutdown();
        }
    }

    @Test
    void statsAnswer() throws Exception {
        MemcachedClient client = open();
        try {
            assertEquals(1, client.getStats().size());
        } finally {
            client.shutdown();
        }
    }

    private static void waitFor(MemcachedClient client, String key, String value)
            throws Exception {
        Await.until(key, () -> client.get(key) != null);
        assertEquals(value, client.get(key));
    }

    private record Adapter(MemcachedClient client) implements TextClient {
        @Override
        public boolean set(String key, Object value, Duration ttl) throws Exception {
            return client.set(key, (int) ttl.toSeconds(), value);
        }

        @Override
        public boolean add(String key, Object value) throws Exception {
            return client.add(key, NEVER, value);
        }

        @Override
        public boolean replace(String key, Object value) throws Exception {
            return client.replace(key, NEVER, value);
        }

        @Override
        public boolean append(String key, String text) throws Exception {
            return client.append(key, text);
        }

        @Override
        public boolean prepend(String key, String text) throws Exception {
            return client.prepend(key, text);
        }

        @Override
        public Optional<Object> get(String key) throws Exception {
            return Optional.ofNullable(client.get(key));
        }

        @Override
        public Map<String, Object> getMany(Collection<String> keys) throws Exception {
            return client.get(keys);
        }

        @Override
        public long version(String key) throws Exception {
            return client.gets(key).getCas();
        }

        @Override
        public boolean setIfVersion(String key, Object value, long version) throws Exception {
            return client.cas(key, NEVER, value, version);
        }

        @Override
        public long increment(String key, long delta) throws Exception {
            return client.incr(key, delta);
        }

        @Override
        public long decrement(String key, long delta) throws Exception {
            return client.decr(key, delta);
        }

        @Override
        public boolean touch(String key, Duration ttl) throws Exception {
            return client.touch(key, (int) ttl.toSeconds());
        }

        @Override
        public boolean delete(String key) throws Exception {
            return client.delete(key);
        }

        @Override
        public void flush() throws Exception {
            client.flushAll();
        }

        @Override
        public void close() throws Exception {
            client.shutdown();
        }
    }
}
