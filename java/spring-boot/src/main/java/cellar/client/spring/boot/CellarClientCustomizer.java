package cellar.client.spring.boot;

import cellar.client.CacheClientBuilder;
import org.jspecify.annotations.NullMarked;

/** Says about the client what no property can; a bean of an application. */
@NullMarked
@FunctionalInterface
public interface CellarClientCustomizer {
    /** Changes {@code builder}, on which the properties have been set. */
    void customize(CacheClientBuilder builder);
}
