package cellar.client.jcache;

import cellar.client.testing.Server;
import java.util.Properties;
import javax.cache.CacheManager;
import javax.cache.Caching;
import javax.cache.configuration.MutableConfiguration;
import javax.cache.spi.CachingProvider;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Tests of caches named "a" of one manager, with one Cellar server. */
abstract class ManagerTest {
    Server server;
    CachingProvider provider;
    CacheManager manager;

    @BeforeEach
    void openManager() throws Exception {
        server = Server.start(Server.Kind.CELLAR);
        provider = Caching.getCachingProvider();
        Properties properties = new Properties();
        properties.setProperty("cache.a.nodes", server.node().address());
        properties.setProperty("cache.a.timeout", "60s");
        properties.setProperty("cache.a.connect-timeout", "60s");
        manager = provider.getCacheManager(provider.getDefaultURI(), null, properties);
    }

    @AfterEach
    void closeProvider() {
        provider.close();
        server.close();
    }

    static MutableConfiguration<String, String> texts() {
        return new MutableConfiguration<String, String>().setTypes(String.class, String.class);
    }
}
