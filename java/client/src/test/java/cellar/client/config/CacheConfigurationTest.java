package cellar.client.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.CacheException;
import cellar.client.Codec;
import cellar.client.Ttl;
import cellar.client.testing.Server;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Caches that are configured by files. */
class CacheConfigurationTest {
    private static final String XML =
            """
            <memcached>
             <client name="mclient_0" socketpool="pool_0" compressEnable="true" defaultEncoding="UTF-8">
               <errorHandler>com.example.Handler</errorHandler></client>
             <Client name="mclient_1" socketPool="pool_1"/>
             <client name="sharded" socketpool="pool_2"/>
             <socketpool name="pool_0" failover="true" initConn="5" nagle="false" socketTO="3000">
               <servers>127.0.0.1:11211</servers></socketpool>
             <socketpool name="pool_1"><servers>127.0.0.1:11212</servers></socketpool>
             <socketpool name="pool_2" failover="false">
               <servers>127.0.0.1:11211,127.0.0.1:11212</servers><weights>3,7</weights></socketpool>
             <cluster name="cluster1" mode="active">
               <memCachedClients>mclient_0,mclient_1</memCachedClients></cluster>
            </memcached>
            """;

    private static InputStream stream(String text) {
        return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
    }

    private static CacheConfiguration properties(String text) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(text));
        return CacheConfiguration.properties(properties);
    }

    @Test
    void aCacheInMemoryNeedsNoServer() throws Exception {
        try (CacheRegistry caches =
                CacheRegistry.of(
                        properties("cache.users.nodes=in-memory\ncache.b.nodes=in-memory"))) {
            caches.cache("users").blocking().set("k", "v", Ttl.NEVER);
            assertEquals("v", caches.cache("users").blocking().get("k"));
            assertEquals(null, caches.cache("b").blocking().get("k"));
        }
    }

    @Test
    void propertiesOfOthersAreLeftOutAndAPasswordIsNotShown() throws Exception {
        CacheConfiguration properties =
                properties(
                        """
                        something.else=1
                        cache.users.nodes=10.0.0.1:11211:2 a, 10.0.0.2:11211
                        cache.users.mode=sharded-with-failover
                        cache.users.timeout=250ms
                        cache.users.user=me
                        cache.users.password=secret
                        """);
        assertEquals(List.of("users"), properties.names());
        Map<String, String> values = properties.cache("users").values();
        assertEquals("250ms", values.get("timeout"));
        assertFalse(values.containsKey("password"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "cache.a.nodes=h:1\ncache.a.tiemout=1s",
                "cache.a.nodes=h:1\ncache.a.timeout=soon",
                "cache.a.nodes=h:1\ncache.a.mode=everywhere",
                "cache.a.nodes=h:port",
                "cache.a.nodes=",
                "cache.a.timeout=1s",
                "cache.a.nodes=h:1\ncache.a.discovery=dns:h:1",
                "cache.a.discovery=magic:h",
                "cache.a.nodes=h:1\ncache.a.codec=java",
                "cache.a.nodes=h:1\ncache.a.codec=json:no.such.Class",
                "cache.a.nodes=h:1\ncache.a.tls=perhaps",
                "cache.nodes=h:1",
            })
    void whatCannotBeUsedIsRefusedWhenItIsRead(String text) {
        assertThrows(CacheException.Configuration.class, () -> properties(text));
    }

    @Test
    void jsonIsOfAClassAListOrSeveralClasses() throws Exception {
        String start = "cache.a.nodes=h:1\ncache.a.codec=json:";
        Codec<Object> list = properties(start + "List<java.lang.Integer>").cache("a").codec();
        assertEquals(List.of(1, 2), list.decode(list.encode(List.of(1, 2)).bytes(), 0));
        Codec<Object> types =
                properties(start + "n=java.lang.Integer,s=java.lang.String").cache("a").codec();
        assertEquals(7, types.decode(types.encode(7).bytes(), 0));
        assertEquals("seven", types.decode(types.encode("seven").bytes(), 0));
        assertThrows(CacheException.Configuration.class, () -> properties(start + "List<No>"));
        assertThrows(
                CacheException.Configuration.class,
                () -> properties(start + "a b=java.lang.String"));
    }

    @Test
    void everyDurationHasAUnit() {
        assertEquals(Duration.ofMillis(5), CacheSettings.duration("5ms"));
        assertEquals(Duration.ofSeconds(5), CacheSettings.duration("5s"));
        assertEquals(Duration.ofMinutes(5), CacheSettings.duration("5 m"));
        assertEquals(Duration.ofHours(5), CacheSettings.duration("5h"));
    }

    @Test
    void theOldXmlBecomesClientsAndAReplicatedCluster() {
        CacheConfiguration configuration = CacheConfiguration.memcachedXml(stream(XML));
        assertEquals(
                List.of("cluster1", "mclient_0", "mclient_1", "sharded"), configuration.names());
        Map<String, String> client = configuration.cache("mclient_0").values();
        assertEquals("3000ms", client.get("timeout"));
        assertEquals("whalin", client.get("codec"));
        Map<String, String> sharded = configuration.cache("sharded").values();
        assertEquals("127.0.0.1:11211:3,127.0.0.1:11212:7", sharded.get("nodes"));
        assertEquals("sharded", sharded.get("mode"));
        Map<String, String> cluster = configuration.cache("cluster1").values();
        assertEquals("127.0.0.1:11211,127.0.0.1:11212", cluster.get("nodes"));
        assertEquals("replicated", cluster.get("mode"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "<memcached><client name='a' socketpool='none'/></memcached>",
                "<memcached><client socketpool='p'/></memcached>",
                "<memcached><client name='a'/></memcached>",
                "<memcached><cluster name='c'><memCachedClients>x</memCachedClients></cluster></memcached>",
                "<memcached>",
                "not xml",
            })
    void anXmlThatCannotBeUsedIsRefused(String text) {
        assertThrows(
                CacheException.Configuration.class,
                () -> CacheConfiguration.memcachedXml(stream(text)));
    }

    @Test
    void anXmlCannotReadFiles() throws Exception {
        String secret = Server.file("secret", "127.0.0.1:1").toUri().toString();
        String text =
                "<!DOCTYPE memcached [<!ENTITY x SYSTEM \""
                        + secret
                        + "\">]><memcached><client name='a' socketpool='p'/>"
                        + "<socketpool name='p'><servers>&x;</servers></socketpool></memcached>";
        assertThrows(
                CacheException.Configuration.class,
                () -> CacheConfiguration.memcachedXml(stream(text)));
    }

    @Test
    @Tag("deep")
    void aRegistryMakesEachCacheOnceAndClosesAll() throws Exception {
        try (Server server = Server.memcached(0)) {
            CacheConfiguration configuration =
                    properties(
                            "cache.a.nodes=127.0.0.1:"
                                    + server.port()
                                    + "\ncache.a.local-cache-bytes=1000000"
                                    + "\ncache.a.timeout=20s\ncache.a.connect-timeout=20s"
                                    + "\ncache.a.codec=spymemcached");
            CacheRegistry registry = CacheRegistry.of(configuration);
            assertSame(registry.cache("a"), registry.cache("a"));
            registry.cache("a").blocking().set("k", 42, Duration.ofMinutes(1));
            assertEquals(42, registry.cache("a").blocking().get("k", Duration.ofMinutes(1)));
            assertThrows(CacheException.Configuration.class, () -> registry.cache("b"));
            registry.close();
            assertThrows(CacheException.Closed.class, () -> registry.cache("a"));
            assertTrue(registry.names().contains("a"));
        }
    }
}
