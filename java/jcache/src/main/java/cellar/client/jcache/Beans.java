package cellar.client.jcache;

import java.lang.management.ManagementFactory;
import javax.cache.CacheException;
import javax.cache.configuration.CompleteConfiguration;
import javax.cache.management.CacheMXBean;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.jspecify.annotations.NullMarked;

/** The MXBeans of a cache in the platform's MBean server, with the names that JCache prescribes. */
@NullMarked
final class Beans {
    /** The kind of a bean. */
    enum Kind {
        /** Its statistics. */
        STATISTICS("CacheStatistics"),
        /** Its configuration. */
        CONFIGURATION("CacheConfiguration");

        private final String type;

        Kind(String type) {
            this.type = type;
        }
    }

    /** The bean of a configuration. */
    record Configured(CompleteConfiguration<?, ?> configuration) implements CacheMXBean {
        @Override
        public String getKeyType() {
            return configuration.getKeyType().getName();
        }

        @Override
        public String getValueType() {
            return configuration.getValueType().getName();
        }

        @Override
        public boolean isReadThrough() {
            return configuration.isReadThrough();
        }

        @Override
        public boolean isWriteThrough() {
            return configuration.isWriteThrough();
        }

        @Override
        public boolean isStoreByValue() {
            return configuration.isStoreByValue();
        }

        @Override
        public boolean isStatisticsEnabled() {
            return configuration.isStatisticsEnabled();
        }

        @Override
        public boolean isManagementEnabled() {
            return configuration.isManagementEnabled();
        }
    }

    private Beans() {}

    /** Registers {@code bean} or unregisters it; no effect if it is so already. */
    static void show(CellarCache<?, ?> cache, Kind kind, Object bean, boolean shown) {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        try {
            ObjectName name = name(cache, kind);
            boolean there = server.isRegistered(name);
            if (shown && !there) {
                server.registerMBean(bean, name);
            } else if (!shown && there) {
                server.unregisterMBean(name);
            }
        } catch (JMException e) {
            throw new CacheException("the bean of " + cache.getName() + " cannot be shown", e);
        }
    }

    private static ObjectName name(CellarCache<?, ?> cache, Kind kind) throws JMException {
        return new ObjectName(
                "javax.cache:type="
                        + kind.type
                        + ",CacheManager="
                        + plain(cache.getCacheManager().getURI().toString())
                        + ",Cache="
                        + plain(cache.getName()));
    }

    /** Replaces characters with a meaning in a bean's name. */
    private static String plain(String text) {
        return text.replaceAll("[,:=\n*?\"]", ".");
    }
}
