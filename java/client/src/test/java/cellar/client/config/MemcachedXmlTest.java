package cellar.client.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.BlockingCacheClient;
import cellar.client.CacheException;
import cellar.client.testing.Marked;
import cellar.client.testing.Serialised;
import cellar.client.testing.Server;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Each setting of memcached.xml has an effect, or a warning gives the reason. */
class MemcachedXmlTest {
    private static final Duration TTL = Duration.ofMinutes(1);

    /** A typical object of a memcache-client-forjava user. */
    record Order(long id, List<String> lines) implements Serializable {}

    private static CacheConfiguration file(String client, String pool, String inClient) {
        return read(
                "<memcached><client name='a' socketpool='p' "
                        + client
                        + ">"
                        + inClient
                        + "</client><socketpool name='p' "
                        + pool
                        + "><servers>127.0.0.1:11211</servers></socketpool></memcached>");
    }

    private static CacheConfiguration read(String text) {
        return CacheConfiguration.memcachedXml(
                new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            nullValues = "none",
            value = {
                "||codec|whalin",
                "||mode|sharded-with-failover",
                "|failover='true'|mode|sharded-with-failover",
                "|failover='false'|mode|sharded",
                "|socketTO='1234'|timeout|1234ms",
                "|SOCKETto='1234'|timeout|1234ms",
                "||timeout|none",
                "||nagle|false",
                "|nagle='true'|nagle|true",
                "|nagle='false'|nagle|false",
                "||check-connections|false",
                "|aliveCheck='true'|check-connections|true",
                "|checkAlive='true'|check-connections|true",
                "|aliveCheck='false'|check-connections|false",
                "||compress-from-bytes|30721",
                "compressEnable='true'||compress-from-bytes|30721",
                "compressEnable='false'||compress-from-bytes|none",
                "defaultEncoding='utf-8'||codec|whalin",
                "||local-cache-bytes|16777216",
                "||java-classes|none",
                "local-cache-bytes='1000' local-ttl='2s'||local-cache-bytes|1000",
                "local-ttl='2s'||local-ttl|2s",
                "java-classes='com.example.*'||java-classes|com.example.*",
                "|blocking-connections='3'|blocking-connections|3",
                "blocking-connections='4'|blocking-connections='3'|blocking-connections|4",
                "mode='replicated'||mode|replicated",
                "codec='string'||codec|string",
                "codec='string'||compress-from-bytes|none",
                "nagle='true'|nagle='false'|nagle|true",
                "timeout='5s'|socketTO='1234'|timeout|5s",
            })
    void aSettingHasAnEffect(String client, String pool, String key, String value) {
        CacheConfiguration file = file(or(client), or(pool), "");
        assertEquals(value, file.cache("a").values().get(key));
        assertEquals(List.of(), file.warnings());
    }

    @Test
    void elementsAreReadInAnyCaseAndCachesFoundByTheirName() {
        String file =
                "<Memcached><CLIENT Name='Orders' socketPool='p'/><SocketPool NAME='p'>"
                        + "<Servers>127.0.0.1:11211</Servers></SocketPool></Memcached>";
        try (CacheRegistry caches = CacheRegistry.of(read(file))) {
            assertEquals(List.of("Orders"), caches.names());
            assertThrows(CacheException.Configuration.class, () -> caches.cache("orders"));
        }
    }

    private static String or(String text) {
        return text == null ? "" : text;
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "|initConn='5'||initConn|when they are first needed",
                "|minConn='5'||minConn|blocking-connections",
                "|maxConn='250'||maxConn|blocking-connections",
                "|maintSleep='5000'||maintSleep|opened on demand",
                "|maxIdle='5000'||maxIdle|stays open",
                "|bufferSize='8192'||bufferSize|grow",
                "||<errorHandler>com.example.Handler</errorHandler>|errorHandler|CacheException",
                "|socketTimeout='3'||socketTimeout|no setting",
                "compress='true'|||compress|no setting",
                "codec='string' compressEnable='true'|||compressEnable|only codec whalin",
            })
    void orAWarningNamesItAndSaysWhy(
            String client, String pool, String inClient, String name, String why) {
        List<String> warnings = file(or(client), or(pool), or(inClient)).warnings();
        assertEquals(1, warnings.size(), warnings.toString());
        String warning = warnings.get(0);
        assertTrue(warning.contains(": " + name + " is not used: "), warning);
        assertTrue(warning.contains(why), warning);
        assertTrue(warning.startsWith(or(pool).isEmpty() ? "client a" : "socketpool p"), warning);
    }

    @Test
    void anEncodingThatIsNotReadIsRefused() {
        CacheException failure =
                assertThrows(
                        CacheException.Configuration.class,
                        () -> file("defaultEncoding='GBK'", "", ""));
        assertTrue(failure.getMessage().contains("GBK"));
    }

    @Test
    @Tag("deep")
    void objectsAndLocalCopiesTakeTheFileAlone() throws Exception {
        String order = Order.class.getName();
        try (Server server = Server.memcached(0)) {
            String text =
                    """
                    <memcached>
                     <client name="plain" socketpool="pool"/>
                     <client name="objects" socketpool="pool" java-classes="%s"/>
                     <socketpool name="pool" aliveCheck="true" nagle="true" socketTO="20000">
                      <servers>%s</servers></socketpool>
                    </memcached>
                    """
                            .formatted(order, server.node().address());
            try (CacheRegistry caches = CacheRegistry.of(read(text))) {
                BlockingCacheClient<Object> objects = caches.cache("objects").blocking();
                BlockingCacheClient<Object> plain = caches.cache("plain").blocking();
                Order value = new Order(7, List.of("a", "b"));
                objects.set("k", value, TTL);
                assertEquals(value, objects.get("k"));
                assertEquals(value, objects.get("k", Duration.ofSeconds(10)));
                assertThrows(CacheException.Coding.class, () -> plain.get("k"));
                assertThrows(CacheException.Coding.class, () -> plain.set("k", value, TTL));
                plain.set("k", "text", TTL);
                assertEquals(value, objects.get("k", Duration.ofSeconds(10)), "a local copy");
                assertEquals("text", objects.get("k"));
                assertEquals("text", objects.get("k", Duration.ZERO));
                CacheException failure =
                        assertThrows(
                                CacheException.Coding.class,
                                () -> objects.set("k", new Marked(), TTL));
                assertTrue(failure.getMessage().contains("java-classes"), failure.getMessage());
                assertGadgetIsNotRead(server, objects);
            }
        }
    }

    private static void assertGadgetIsNotRead(Server server, BlockingCacheClient<Object> objects)
            throws Exception {
        byte[] gadget = Serialised.bytes(new Marked());
        String bytes = new String(gadget, StandardCharsets.ISO_8859_1);
        Marked.read = false;
        try (java.net.Socket socket = new java.net.Socket("127.0.0.1", server.port())) {
            String request = "set gadget 8 60 " + gadget.length + "\r\n" + bytes + "\r\n";
            socket.getOutputStream().write(request.getBytes(StandardCharsets.ISO_8859_1));
            assertEquals('S', socket.getInputStream().read());
        }
        assertThrows(CacheException.Coding.class, () -> objects.get("gadget"));
        assertFalse(Marked.read);
    }

    @Test
    @Tag("deep")
    void clientsOfOneFileHaveTheirOwnLocalCaches() throws Exception {
        try (Server server = Server.memcached(0)) {
            String text =
                    "<memcached><client name='a' socketpool='p'/><client name='b' socketpool='p'"
                            + " local-ttl='1m'/><socketpool name='p' socketTO='20000'><servers>"
                            + server.node().address()
                            + "</servers></socketpool></memcached>";
            try (CacheRegistry caches = CacheRegistry.of(read(text))) {
                BlockingCacheClient<Object> a = caches.cache("a").blocking();
                BlockingCacheClient<Object> b = caches.cache("b").blocking();
                a.set("k", 1, TTL);
                assertEquals(1, b.get("k"));
                assertEquals(1, a.get("k", Duration.ofMinutes(1)));
                server.ask("delete k\r\n", "DELETED");
                assertEquals(1, b.get("k"), "local-ttl serves every read");
                assertNull(a.get("k"), "without it only those that say how old");
                assertEquals(1, a.get("k", Duration.ofMinutes(1)));
            }
        }
    }

    @Test
    void keysOfAClusterAreThoseOfItsClients() {
        CacheConfiguration file =
                read(
                        """
                        <memcached>
                         <client name="a" socketpool="p"/><client name="b" socketpool="q"/>
                         <socketpool name="p"><servers>h:1</servers></socketpool>
                         <socketpool name="q" aliveCheck="true"><servers>h:2</servers></socketpool>
                         <cluster name="c" mode="active" java-classes="com.example.Order">
                          <memCachedClients>a,b</memCachedClients></cluster>
                        </memcached>
                        """);
        Map<String, String> keys = file.cache("c").values();
        assertEquals("h:1,h:2", keys.get("nodes"));
        assertEquals("com.example.Order", keys.get("java-classes"));
        assertEquals("true", keys.get("check-connections"));
        assertEquals("replicated", keys.get("mode"));
        assertEquals(List.of(), file.warnings());
    }

    @ParameterizedTest
    @ValueSource(strings = {"standby", "other"})
    void aClusterIsActive(String mode) {
        List<String> warnings =
                read("<memcached><client name='a' socketpool='p'/><socketpool name='p'><servers>h:1"
                                + "</servers></socketpool><cluster name='c' mode='"
                                + mode
                                + "'><memCachedClients>a</memCachedClients></cluster></memcached>")
                        .warnings();
        assertEquals(1, warnings.size(), warnings.toString());
        assertTrue(warnings.get(0).startsWith("cluster c: mode " + mode + " is not used: every"));
    }

    @Test
    void theGuidesFileIsRead() throws Exception {
        try (InputStream file = MemcachedXmlTest.class.getResourceAsStream("/memcached.xml")) {
            CacheConfiguration caches = CacheConfiguration.memcachedXml(file);
            assertEquals(List.of("orders", "users"), caches.names());
            assertEquals(
                    List.of(
                            "socketpool pool: maxConn is not used: callers share few connections and"
                                    + " none waits for a free one; blocking-connections says how"
                                    + " many there are"),
                    caches.warnings());
            Map<String, String> orders = caches.cache("orders").values();
            assertEquals("10.0.0.1:11211:3,10.0.0.2:11211:7", orders.get("nodes"));
            assertEquals("com.example.Order, com.example.dto.*", orders.get("java-classes"));
            assertEquals("string", caches.cache("users").values().get("codec"));
        }
    }
}
