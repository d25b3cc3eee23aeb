package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Future;
import net.spy.memcached.CASResponse;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;
import org.junit.jupiter.api.Test;

/** spymemcached: one connection, asynchronous, pipelines what waits. */
class SpymemcachedTest extends TextClientContract {
    private static final int NEVER = 0;

    /** What is spoken. */
    Protocol protocol() {
        return Protocol.TEXT;
    }

    private MemcachedClient open() throws Exception {
        ConnectionFactoryBuilder settings =
                new ConnectionFactoryBuilder().setProtocol(protocol()).setOpTimeout(60_000);
        return new MemcachedClient(settings.build(), List.of(SERVER));
    }

    @Override
    TextClient connect() throws Exception {
        return new Adapter(open());
    }

    @Test
    void aThousandRequestsInFlightAreAnsweredInOrder() throws Exception {
        MemcachedClient client = open();
        try {
            List<Future<Boolean>> stored = new ArrayList<>();
            List<Future<Object>> read = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                stored.add(client.set("flight-" + i, NEVER, "value-" + i));
                read.add(client.asyncGet("flight-" + i));
            }
            for (int i = 0; i < 1000; i++) {
                assertTrue(stored.get(i).get());
                assertEquals("value-" + i, read.get(i).get());
            }
        } finally {
            client.shutdown();
        }
    }

    @Test
    void aMissingCounterIsCreatedWithItsDefault() throws Exception {
        MemcachedClient client = open();
        try {
            client.flush().get();
            assertEquals(100, client.incr("fresh", 1, 100));
            assertEquals(101, client.incr("fresh", 1, 100));
        } finally {
            client.shutdown();
        }
    }

    @Test
    void statsAndVersionAnswer() throws Exception {
        MemcachedClient client = open();
        try {
            assertTrue(client.getStats().get(SERVER).containsKey("curr_items"));
            assertEquals(1, client.getVersions().size());
        } finally {
            client.shutdown();
        }
    }

    private record Adapter(MemcachedClient client) implements TextClient {
        @Override
        public boolean set(String key, Object value, Duration ttl) throws Exception {
            return client.set(key, (int) ttl.toSeconds(), value).get();
        }

        @Override
        public boolean add(String key, Object value) throws Exception {
            return client.add(key, NEVER, value).get();
        }

        @Override
        public boolean replace(String key, Object value) throws Exception {
            return client.replace(key, NEVER, value).get();
        }

        @Override
        public boolean append(String key, String text) throws Exception {
            return client.append(key, text).get();
        }

        @Override
        public boolean prepend(String key, String text) throws Exception {
            return client.prepend(key, text).get();
        }

        @Override
        public Optional<Object> get(String key) {
            return Optional.ofNullable(client.get(key));
        }

        @Override
        public Map<String, Object> getMany(Collection<String> keys) {
            return client.getBulk(keys);
        }

        @Override
        public long version(String key) {
            return client.gets(key).getCas();
        }

        @Override
        public boolean setIfVersion(String key, Object value, long version) {
            return client.cas(key, version, value) == CASResponse.OK;
        }

        @Override
        public long increment(String key, long delta) {
            return client.incr(key, delta);
        }

        @Override
        public long decrement(String key, long delta) {
            return client.decr(key, delta);
        }

        @Override
        public boolean touch(String key, Duration ttl) throws Exception {
            return client.touch(key, (int) ttl.toSeconds()).get();
        }

        @Override
        public boolean delete(String key) throws Exception {
            return client.delete(key).get();
        }

        @Override
        public void flush() throws Exception {
            client.flush().get();
        }

        @Override
        public void close() {
            client.shutdown();
        }
    }
}
