package cellar.client.config;

import cellar.client.CacheException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamReader;

/**
 * Reads memcache-client-forjava's {@code memcached.xml}; tags and attributes in any case.
 *
 * <p>Document types and entities are not read, so a file cannot make the reader fetch anything.
 */
final class MemcachedXml {
    private record Element(Map<String, String> attributes, Map<String, String> children) {
        String required(String kind, String name) {
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

    private MemcachedXml() {}

    static Map<String, CacheSettings> read(InputStream document) {
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
        return xml.settings();
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

    private static void put(Map<String, Element> target, String kind, XMLStreamReader reader)
            throws XMLStreamException {
        Map<String, String> attributes = new TreeMap<>();
        for (int i = 0; i < reader.getAttributeCount(); i++) {
            attributes.put(
                    lower(reader.getAttributeLocalName(i)), reader.getAttributeValue(i).strip());
        }
        Map<String, String> children = new TreeMap<>();
        while (reader.nextTag() == XMLStreamConstants.START_ELEMENT) {
            children.put(lower(reader.getLocalName()), reader.getElementText().strip());
        }
        Element element = new Element(attributes, children);
        target.put(element.required(kind, "name"), element);
    }

    private static String lower(String word) {
        return word.toLowerCase(Locale.ROOT);
    }

    private Map<String, CacheSettings> settings() {
        Map<String, CacheSettings> caches = new LinkedHashMap<>();
        clients.forEach(
                (name, client) -> {
                    Map<String, String> keys = keys(name, client);
                    caches.put(name, CacheSettings.of(name, keys, Map.of()));
                });
        clusters.forEach(
                (name, cluster) ->
                        caches.put(
                                name, CacheSettings.of(name, replicated(name, cluster), Map.of())));
        return caches;
    }

    private Map<String, String> keys(String name, Element client) {
        String encoding = client.attributes().getOrDefault("defaultencoding", "UTF-8");
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
        boolean failover = !"false".equals(pool.attributes().get("failover"));
        keys.put("mode", failover ? "sharded-with-failover" : "sharded");
        String timeout_ms = pool.attributes().get("socketto");
        if (timeout_ms != null) {
            keys.put("timeout", timeout_ms + "ms");
        }
        return keys;
    }

    private Element pool(String name, Element client) {
        String wanted = client.required("client " + name, "socketpool");
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
     * Both modes, active and standby, become the same: all nodes hold all, the trusted are read.
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
        return keys;
    }
}
