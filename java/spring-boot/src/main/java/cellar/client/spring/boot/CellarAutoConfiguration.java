package cellar.client.spring.boot;

import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.CacheMetrics;
import cellar.client.Codec;
import cellar.client.config.CacheSettings;
import cellar.client.micrometer.MicrometerMetrics;
import cellar.client.spring.CellarCacheManager;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.NullMarked;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.cache.CacheManager;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * Creates a client and a cache manager from an application's properties, unless it defines its own.
 *
 * <p>Runs before Boot's own cache configuration, whose class has a different package in Boot 3 and
 * 4.
 */
@NullMarked
@AutoConfiguration(
        beforeName = {
            "org.springframework.boot.autoconfigure.cache.CacheAutoConfiguration",
            "org.springframework.boot.cache.autoconfigure.CacheAutoConfiguration"
        })
@EnableConfigurationProperties(CellarProperties.class)
public class CellarAutoConfiguration {
    /** Called by Spring. */
    public CellarAutoConfiguration() {}

    /** Creates the client; it is closed with the application. */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    public CacheClient<Object> cellarClient(
            CellarProperties properties,
            ObjectProvider<CacheMetrics> metrics,
            ObjectProvider<CellarClientCustomizer> customizers) {
        CacheSettings settings = properties.settings();
        CacheClientBuilder builder = settings.builder();
        metrics.ifUnique(builder::metrics);
        customizers.orderedStream().forEach(customizer -> customizer.customize(builder));
        return builder.build(settings.codec());
    }

    /** Creates the cache manager. */
    @Bean
    @ConditionalOnMissingBean(CacheManager.class)
    public CellarCacheManager cellarCacheManager(
            CacheClient<?> client, CellarProperties properties) {
        Map<String, Duration> ttls = new HashMap<>();
        Map<String, Codec<?>> codecs = new HashMap<>();
        properties
                .caches()
                .forEach(
                        (name, cache) -> {
                            if (cache.ttl() != null) {
                                ttls.put(name, cache.ttl());
                            }
                            String codec = cache.codec();
                            if (codec != null) {
                                codecs.put(name, properties.codec(name, codec).codec());
                            }
                        });
        CellarCacheManager manager =
                CellarCacheManager.of(client, properties.ttl())
                        .ttls(ttls)
                        .codecs(codecs)
                        .generationTtl(properties.generationTtl());
        Duration localTtl = properties.localTtl();
        manager = localTtl == null ? manager : manager.localTtl(localTtl);
        return properties.nulls() ? manager : manager.withoutNulls();
    }

    /** Creates meters if the application has Micrometer and {@code cellar-client-micrometer}. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({MicrometerMetrics.class, MeterRegistry.class})
    static class Meters {
        @Bean
        @ConditionalOnMissingBean
        CacheMetrics cellarMetrics(ObjectProvider<MeterRegistry> registries) {
            MeterRegistry registry = registries.getIfUnique();
            return registry == null
                    ? CacheMetrics.NONE
                    : new MicrometerMetrics(registry, Tags.empty());
        }
    }
}
