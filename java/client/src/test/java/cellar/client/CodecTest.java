package cellar.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Marked;
import cellar.client.testing.Patient;
import cellar.client.testing.Server;
import com.whalin.MemCached.MemCachedClient;
import com.whalin.MemCached.SockIOPool;
import java.io.Serializable;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Date;
import java.util.List;
import java.util.Map;
import net.spy.memcached.MemcachedClient;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Values of other clients can be read, and other clients can read ours. */
class CodecTest {
    private static final Duration TTL = Duration.ofMinutes(1);
    private static final List<Object> VALUES =
            List.of(
                    "text",
                    "",
                    "ünï",
                    "x".repeat(50_000),
                    1,
                    -1,
                    0,
                    Integer.MIN_VALUE,
                    5L,
                    -5L,
                    Long.MAX_VALUE,
                    true,
                    false,
                    1.5f,
                    -2.5,
                    (byte) -3,
                    new Date(1_700_000_000_000L));

    private static Server server;

    @BeforeAll
    static void open() throws Exception {
        server = Server.memcached(0);
    }

    @AfterAll
    static void shut() {
        server.close();
    }

    private static <V> CacheClient<V> client(Codec<V> codec) {
        return Patient.builder().nodes(List.of(server.node())).build(codec);
    }

    @Test
    @Tag("deep")
    void spymemcachedAndThisReadEachOther() throws Exception {
        MemcachedClient spy =
                new MemcachedClient(new InetSocketAddress("127.0.0.1", server.port()));
        try (CacheClient<Object> client = client(Codecs.spymemcached())) {
            for (Object value : VALUES) {
                spy.set("spy", 60, value).get();
                assertEquals(value, client.blocking().get("spy"));
                client.blocking().set("own", value, TTL);
                assertEquals(value, spy.get("own"));
            }
            byte[] bytes = {1, 2, 3};
            client.blocking().set("bytes", bytes, TTL);
            assertArrayEquals(bytes, (byte[]) spy.get("bytes"));
            spy.set("object", 60, new ArrayList<>(List.of(1))).get();
            assertThrows(CacheException.Coding.class, () -> client.blocking().get("object"));
            assertThrows(
                    CacheException.Coding.class,
                    () -> client.blocking().set("object", new Object(), TTL));
        } finally {
            spy.shutdown();
        }
    }

    @Test
    @Tag("deep")
    void whalinsClientAndThisReadEachOther() {
        SockIOPool pool = SockIOPool.getInstance("codec-test");
        pool.setServers(new String[] {server.node().address()});
        pool.initialize();
        MemCachedClient whalin = new MemCachedClient("codec-test");
        List<Object> values = new ArrayList<>(VALUES);
        values.add('c');
        values.add((short) -7);
        values.remove("");
        try (CacheClient<Object> client = client(Codecs.whalin())) {
            for (Object value : values) {
                whalin.set("whalin", value);
                assertEquals(value, client.blocking().get("whalin"), value.toString());
                client.blocking().set("own", value, TTL);
                assertEquals(value, whalin.get("own"), value.toString());
            }
            byte[] bytes = {1, 2, 3};
            client.blocking().set("bytes", bytes, TTL);
            assertArrayEquals(bytes, (byte[]) whalin.get("bytes"));
            whalin.set("object", new ArrayList<>(List.of(1)));
            assertThrows(CacheException.Coding.class, () -> client.blocking().get("object"));
        } finally {
            pool.shutDown();
        }
    }

    @Test
    @Tag("deep")
    void objectsOfDeclaredClassesTravelBetweenWhalinsClientAndThis() {
        SockIOPool pool = SockIOPool.getInstance("objects-test");
        pool.setServers(new String[] {server.node().address()});
        pool.initialize();
        MemCachedClient whalin = new MemCachedClient("objects-test");
        WhalinOptions options =
                WhalinOptions.plain()
                        .javaClasses(JavaClasses.of(Person.class.getName()))
                        .compressedFrom(WhalinOptions.COMPRESSED_FROM);
        try (CacheClient<Object> client = client(Codecs.whalin(options))) {
            List<String> many = Collections.nCopies(10_000, "tag").stream().toList();
            for (Object value :
                    List.of(
                            new Person("Ada", 36, List.of("a", "b")),
                            new Person("Ada", 36, new ArrayList<>(many)),
                            new ArrayList<>(List.of(1, "two", 3L)),
                            "x".repeat(50_000))) {
                whalin.set("whalin", value);
                assertEquals(value, client.blocking().get("whalin"));
                client.blocking().set("own", value, TTL);
                assertEquals(value, whalin.get("own"));
            }
            BlockingCacheClient<byte[]> bytes = client.withCodec(Codecs.bytes()).blocking();
            assertTrue(bytes.get("own").length < 1000, "long text is compressed");
            whalin.set("gadget", new Marked());
            assertThrows(CacheException.Coding.class, () -> client.blocking().get("gadget"));
            client.blocking().storeCounter("count", 5, TTL);
            CacheException counter =
                    assertThrows(CacheException.Coding.class, () -> client.blocking().get("count"));
            assertEquals("a counter is read by getCounter, not by get", counter.getMessage());
            assertEquals(5, client.blocking().getCounter("count"));
        } finally {
            pool.shutDown();
        }
    }

    /** A class that is stored as JSON, or serialised. */
    public record Person(String name, int age, List<String> tags) implements Serializable {}

    @Test
    void objectsTravelAsJson() {
        try (CacheClient<Person> client = client(Codecs.json(Person.class))) {
            Person person = new Person("Ada", 36, List.of("a", "b"));
            client.blocking().set("person", person, TTL);
            assertEquals(person, client.blocking().get("person"));
            assertEquals(
                    "{\"name\":\"Ada\",\"age\":36,\"tags\":[\"a\",\"b\"]}",
                    client.withCodec(Codecs.string()).blocking().get("person"));
            client.withCodec(Codecs.string()).blocking().set("person", "{", TTL);
            assertThrows(CacheException.Coding.class, () -> client.blocking().get("person"));
            Throwable failure =
                    client.get("person").handle((v, e) -> e).toCompletableFuture().join();
            assertEquals(CacheException.Coding.class, failure.getClass());
        }
    }

    /** Another declared class. */
    public record City(String name) {}

    @Test
    void severalDeclaredClassesShareACodec() {
        Map<String, Class<?>> types = Map.of("person", Person.class, "city", City.class);
        try (CacheClient<Object> client = client(Codecs.jsonTypes(types))) {
            BlockingCacheClient<Object> cache = client.blocking();
            Person person = new Person("Ada", 36, List.of());
            cache.set("p", person, TTL);
            cache.set("c", new City("London"), TTL);
            assertEquals(person, cache.get("p"));
            assertEquals(new City("London"), client.get("c").toCompletableFuture().join());
            BlockingCacheClient<String> plain = client.withCodec(Codecs.string()).blocking();
            assertEquals("{\"type\":\"city\",\"value\":{\"name\":\"London\"}}", plain.get("c"));
            assertThrows(CacheException.Coding.class, () -> cache.set("x", List.of(1), TTL));
            for (String stored :
                    List.of(
                            "{\"type\":\"java.io.File\",\"value\":\"/\"}",
                            "{\"type\":\"city\"}",
                            "[\"city\",{\"name\":\"London\"}]",
                            "{\"@class\":\"java.io.File\",\"value\":\"/\"}",
                            "")) {
                plain.set("x", stored, TTL);
                assertThrows(CacheException.Coding.class, () -> cache.get("x"), stored);
            }
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> Codecs.jsonTypes(Map.of("a", City.class, "b", City.class)));
    }

    @Test
    void listsHaveElementsOfTheDeclaredClass() {
        try (CacheClient<List<City>> client = client(Codecs.jsonList(City.class))) {
            List<City> cities = List.of(new City("London"), new City("Paris"));
            client.blocking().set("cities", cities, TTL);
            assertEquals(cities, client.blocking().get("cities"));
        }
    }
}
