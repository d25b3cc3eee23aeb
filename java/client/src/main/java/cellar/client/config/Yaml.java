package cellar.client.config;

import cellar.client.CacheException;
import java.io.InputStream;
import org.jspecify.annotations.Nullable;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;

/** Reads YAML; apart, so that nothing else needs the parser's classes. */
final class Yaml {
    private Yaml() {}

    /** The document as maps, lists and plain values. */
    static @Nullable Object read(InputStream document) {
        try {
            return new Load(LoadSettings.builder().build()).loadFromInputStream(document);
        } catch (YamlEngineException e) {
            throw new CacheException.Configuration("not YAML", e);
        }
    }
}
