package cellar.client.spring.boot;

import cellar.client.CacheClientBuilder;
import org.jspecify.annotations.NullMarked;

/**
 * Changes settings of the client that have no property; implemented by a bean of an application.
 */
@NullMarked
@FunctionalInterface
public interface CellarClientCustomizer {
    /** Changes {@code builder} after the properties have been applied. */
    void customize(CacheClientBuilder builder);
}
