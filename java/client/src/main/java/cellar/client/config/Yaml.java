package cellar.client.config;

import cellar.client.CacheException;
import java.io.InputStream;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.YamlUnicodeReader;
import org.snakeyaml.engine.v2.composer.Composer;
import org.snakeyaml.engine.v2.exceptions.Mark;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;
import org.snakeyaml.engine.v2.parser.ParserImpl;
import org.snakeyaml.engine.v2.scanner.StreamReader;

/** Reads YAML; apart, so that nothing else needs the parser's classes. */
final class Yaml {
    /** Where keys stand, by cache and key. */
    private final Map<String, Map<String, Integer>> lines = new LinkedHashMap<>();

    private final Map<String, Map<String, String>> texts = new LinkedHashMap<>();

    private Yaml() {}

    /** The keys of each cache in the document. */
    static Yaml read(InputStream document) {
        Yaml yaml = new Yaml();
        try {
            LoadSettings settings = LoadSettings.builder().setUseMarks(true).build();
            StreamReader reader = new StreamReader(settings, new YamlUnicodeReader(document));
            yaml.document(new Composer(settings, new ParserImpl(settings, reader)).getSingleNode());
        } catch (MarkedYamlEngineException e) {
            String where =
                    e.getProblemMark().map(Yaml::line).map(at -> "line " + at + ": ").orElse("");
            throw new CacheException.Configuration(where + "not YAML: " + e.getProblem(), e);
        } catch (YamlEngineException e) {
            throw new CacheException.Configuration("not YAML: " + e.getMessage(), e);
        }
        return yaml;
    }

    Map<String, Map<String, String>> texts() {
        return texts;
    }

    Map<String, Integer> lines(String cache) {
        return lines.getOrDefault(cache, Map.of());
    }

    private void document(Optional<Node> root) {
        if (root.isEmpty()) {
            throw new CacheException.Configuration("the document is empty", null);
        }
        for (NodeTuple part : map(root.get(), "the document").getValue()) {
            if (text(part.getKeyNode()).equals("caches")) {
                map(part.getValueNode(), "caches").getValue().forEach(this::cache);
                return;
            }
        }
        throw new CacheException.Configuration("the document has no caches", null);
    }

    private void cache(NodeTuple cache) {
        String name = text(cache.getKeyNode());
        Map<String, String> keys = texts.computeIfAbsent(name, same -> new LinkedHashMap<>());
        Map<String, Integer> where = lines.computeIfAbsent(name, same -> new LinkedHashMap<>());
        for (NodeTuple key : map(cache.getValueNode(), name).getValue()) {
            keys.put(text(key.getKeyNode()), text(key.getValueNode()));
            key.getKeyNode()
                    .getStartMark()
                    .ifPresent(mark -> where.put(text(key.getKeyNode()), line(mark)));
        }
    }

    private static MappingNode map(Node node, String what) {
        if (node instanceof MappingNode map) {
            return map;
        }
        throw wrong(node, what + " is not a map of keys");
    }

    private static String text(Node node) {
        if (node instanceof ScalarNode scalar) {
            return scalar.getValue();
        }
        if (node instanceof SequenceNode list) {
            return list.getValue().stream().map(Yaml::text).collect(Collectors.joining(","));
        }
        throw wrong(node, "a value, not a map");
    }

    private static CacheException wrong(Node node, String what) {
        String where = node.getStartMark().map(mark -> "line " + line(mark) + ": ").orElse("");
        return new CacheException.Configuration(where + what, null);
    }

    /** People count from 1. */
    private static int line(Mark mark) {
        return mark.getLine() + 1;
    }
}
