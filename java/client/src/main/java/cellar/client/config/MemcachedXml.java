package cellar.client.config;

import cellar.client.CacheException;
import cellar.client.WhalinOptions;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the {@code memcached.xml} of memcache-client-forjava; tags and attributes in any case.
 *
 * <p>Besides the settings of that client, an element may have any key of {@link CacheSettings} as
 * an attribute, which takes precedence. A setting without effect is reported in a warning with the
 * reason. Document types and entities are not read, so a file cannot cause the reader to fetch
 * anything.
 */
final class MemcachedXml {
    private static final Logger LOG = LoggerFactory.getLogger(MemcachedXml.class);

    /** Limit of local copies, in bytes; memcache-client-forjava had no limit. */
    private static final String LOCAL_BYTES = String.valueOf(16 << 20);

    private static final String SHARED =
            "callers share few connections and none waits for a free one; blocking-connections"
                    + " says how many there are";

    /** Settings without effect, and why. */
    private static final Map<String, String> UNUSED =
            Map.of(
                    "initconn", "connections are opened when they are first needed",
                    "minconn", SHARED,
                    "maxconn", SHARED,
                    "maintsleep", "there is no pool to maintain: connections are opened on demand",
                    "maxidle", "an idle connection stays open, and is checked before it is used",
                    "buffersize", "buffers grow with what is sent and shrink by themselves",
                    "errorhandler", "a call that fails throws a CacheException");

    /** Settings that become keys or are names of elements, by element. */
    private static final Map<String, Set<String>> USED =
            Map.of(
                    "client", Set.of("name", "socketpool", "compressenable", "defaultencoding"),
                    "socketpool",
                            Set.of(
                                    "name",
                                    "servers",
                                    "weights",
                                    "failover",
                                    "nagle",
                                    "socketto",
                                    "alivecheck",
                                    "checkalive"),
                    "cluster", Set.of("name", "mode", "memcachedclients"));

    private record Element(
            String kind, Map<String, String> attributes, Map<String, String> children) {
        String or(String name, String otherwise) {
            return attributes.getOrDefault(name, otherwise);
        }

        /** Copies the attributes that are keys of {@link CacheSettings}. */
        void keys(Map<String, String> target) {
            attributes.forEach(
                    (name, value) -> {
                        if (isKey(kind, name)) {
                            target.put(name, value);
                        }
                    });
        }

        String required(String name) {
            String value = attributes.get(name);
            if (value == null || value.isEmpty()) {
                throw new CacheException.Configuration(kind + " without " + name, null);
            }
            return value;
        }
    }

    private final Map<String, Element> clients = new LinkedHashMap<>();
    private final Map<String, Element> pools = new LinkedHashMap<>();
    private final Map<String, Element> clusters = new LinkedHashMap<>();

    /** A set, because a client is read again for each cluster that contains it. */
    private final Set<String> warnings = new LinkedHashSet<>();

    private MemcachedXml() {}

    static CacheConfiguration read(InputStream document) {
        XMLInputFactory factory = XMLInputFactory.newDefaultFactory();
        factory.setProperty(XMLInputFactory.SUPPORT_DTD, false);
        factory.setProperty(XMLInputFactory.IS_SUPPORTING_EXTERNAL_ENTITIES, false);
        MemcachedXml xml = new MemcachedXml();
        try {
            XMLStreamReader reader = factory.createXMLStreamReader(document);
            while (reader.hasNext()) {
                if (reader.next() == XMLStreamConstants.START_ELEMENT) {
                    xml.element(reader);
                }
            }
        } catch (XMLStreamException e) {
            throw new CacheException.Configuration("not a memcached.xml", e);
        }
        Map<String, CacheSettings> caches = xml.settings();
        xml.warnings.forEach(LOG::warn);
        return new CacheConfiguration(caches, List.copyOf(xml.warnings));
    }

    private void element(XMLStreamReader reader) throws XMLStreamException {
        String kind = lower(reader.getLocalName());
        switch (kind) {
            case "client" -> put(clients, kind, reader);
            case "socketpool" -> put(pools, kind, reader);
            case "cluster" -> put(clusters, kind, reader);
            default -> {}
        }
    }

    private void put(Map<String, Element> target, String kind, XMLStreamReader reader)
            throws XMLStreamException {
        String where = kind + " " + reader.getAttributeValue(null, "name");
        Map<String, String> attributes = new TreeMap<>();
        for (int i = 0; i < reader.getAttributeCount(); i++) {
            String name = reader.getAttributeLocalName(i);
            attributes.put(lower(name), reader.getAttributeValue(i).strip());
            warn(kind, where, name);
        }
        Map<String, String> children = new TreeMap<>();
        while (reader.nextTag() == XMLStreamConstants.START_ELEMENT) {
            String name = reader.getLocalName();
            children.put(lower(name), reader.getElementText().strip());
            warn(kind, where, name);
        }
        Element element = new Element(kind, attributes, children);
        target.put(element.required("name"), element);
    }

    private static Set<String> used(String kind) {
        return USED.getOrDefault(kind, Set.of());
    }

    private static boolean isKey(String kind, String name) {
        return CacheSettings.isKey(name) && !used(kind).contains(name);
    }

    private void warn(String kind, String where, String name) {
        String lower = lower(name);
        if (!used(kind).contains(lower) && !CacheSettings.isKey(lower)) {
            String why = UNUSED.getOrDefault(lower, "it is no setting of memcached.xml");
            warnings.add(where + ": " + name + " is not used: " + why);
        }
    }

    private static String lower(String word) {
        return word.toLowerCase(Locale.ROOT);
    }

    private Map<String, CacheSettings> settings() {
        Map<String, CacheSettings> caches = new LinkedHashMap<>();
        clients.forEach(
                (name, client) -> {
                    Map<String, String> keys = keys(name, client);
                    caches.put(name, CacheSettings.of(name, keys));
                });
        clusters.forEach(
                (name, cluster) ->
                        caches.put(name, CacheSettings.of(name, replicated(name, cluster))));
        return caches;
    }

    private Map<String, String> keys(String name, Element client) {
        String encoding = client.or("defaultencoding", "UTF-8");
        if (!encoding.equalsIgnoreCase("UTF-8")) {
            throw new CacheException.Configuration(
                    "client " + name + ": only UTF-8 is read, not " + encoding, null);
        }
        Element pool = pool(name, client);
        List<String> servers = list(pool, "servers");
        List<String> weights = list(pool, "weights");
        List<String> nodes = new ArrayList<>();
        for (int i = 0; i < servers.size(); i++) {
            nodes.add(servers.get(i) + (i < weights.size() ? ":" + weights.get(i) : ""));
        }
        Map<String, String> keys = new LinkedHashMap<>();
        keys.put("nodes", String.join(",", nodes));
        keys.put("codec", "whalin");
        keys.put("local-cache-bytes", LOCAL_BYTES);
        keys.put("mode", isTrue(pool.or("failover", "true")) ? "sharded-with-failover" : "sharded");
        keys.put("nagle", truth(pool.or("nagle", "false")));
        String check = pool.or("checkalive", "false");
        keys.put("check-connections", truth(pool.or("alivecheck", check)));
        compress(name, client, client.or("codec", pool.or("codec", "whalin")), keys);
        String timeout_ms = pool.attributes().get("socketto");
        if (timeout_ms != null) {
            keys.put("timeout", timeout_ms + "ms");
        }
        pool.keys(keys);
        client.keys(keys);
        return keys;
    }

    private void compress(String name, Element client, String codec, Map<String, String> keys) {
        if (!isTrue(client.or("compressenable", "true"))) {
            return;
        }
        if (codec.equals("whalin")) {
            keys.put("compress-from-bytes", String.valueOf(WhalinOptions.COMPRESSED_FROM));
        } else if (client.attributes().containsKey("compressenable")) {
            warnings.add(
                    "client "
                            + name
                            + ": compressEnable is not used: only codec whalin compresses");
        }
    }

    /** As memcache-client-forjava: every value other than true is false. */
    private static boolean isTrue(String text) {
        return text.equalsIgnoreCase("true");
    }

    private static String truth(String text) {
        return String.valueOf(isTrue(text));
    }

    private Element pool(String name, Element client) {
        String wanted = client.required("socketpool");
        Element pool = pools.get(wanted);
        if (pool == null) {
            throw new CacheException.Configuration("client " + name + ": no pool " + wanted, null);
        }
        return pool;
    }

    private static List<String> list(Element element, String child) {
        String text = element.children().getOrDefault(child, "");
        List<String> words = new ArrayList<>();
        for (String word : text.split(",")) {
            if (!word.isBlank()) {
                words.add(word.strip());
            }
        }
        return words;
    }

    /**
     * Mode active: a key is read and changed at its home node, keys have different homes, and
     * changes are copied to the other nodes later. An item that its home lacks is read from another
     * node and added. There is no standby mode.
     */
    private Map<String, String> replicated(String name, Element cluster) {
        List<String> nodes = new ArrayList<>();
        Map<String, String> keys = new LinkedHashMap<>();
        for (String member : list(cluster, "memcachedclients")) {
            Element client = clients.get(member);
            if (client == null) {
                throw new CacheException.Configuration(
                        "cluster " + name + ": no client " + member, null);
            }
            keys = keys(member, client);
            if (keys.get("nodes").contains(",")) {
                throw new CacheException.Configuration(
                        "cluster " + name + ": client " + member + " has several servers", null);
            }
            nodes.add(keys.get("nodes"));
        }
        keys.put("nodes", String.join(",", nodes));
        keys.put("mode", "replicated");
        if (!cluster.or("mode", "active").equalsIgnoreCase("active")) {
            warnings.add(
                    "cluster "
                            + name
                            + ": mode "
                            + cluster.or("mode", "")
                            + " is not used: every node is read and written, as in mode active");
        }
        if (!cluster.or("codec", "whalin").equals("whalin")) {
            keys.remove("compress-from-bytes");
        }
        cluster.keys(keys);
        return keys;
    }
}
