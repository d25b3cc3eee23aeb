package libraries;

import static libraries.Show.show;

import jakarta.persistence.Cacheable;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import java.util.Map;
import org.hibernate.annotations.Cache;
import org.hibernate.annotations.CacheConcurrencyStrategy;
import org.hibernate.boot.registry.StandardServiceRegistry;
import org.hibernate.cfg.Configuration;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.hibernate.RedissonRegionFactory;

/** Hibernate's second level cache by Redisson: entities, queries, changes. */
final class HibernateCache {
    /** What is cached. */
    @Entity(name = "Book")
    @Cacheable
    @Cache(usage = CacheConcurrencyStrategy.READ_WRITE, region = "books")
    static class Book {
        @Id long id;
        String title;

        Book() {}

        Book(long id, String title) {
            this.id = id;
            this.title = title;
        }
    }

    /** Regions on the server under test. */
    public static final class Regions extends RedissonRegionFactory {
        @Override
        @SuppressWarnings("rawtypes")
        protected RedissonClient createRedissonClient(
                StandardServiceRegistry registry, Map properties) {
            var config = new Config();
            config.useSingleServer().setAddress(Show.URL).setConnectionMinimumIdleSize(1);
            return Redisson.create(config);
        }
    }

    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var configuration = new Configuration().addAnnotatedClass(Book.class);
                    configuration.setProperty("hibernate.connection.url", "jdbc:h2:mem:books");
                    configuration.setProperty("hibernate.hbm2ddl.auto", "create");
                    configuration.setProperty("hibernate.generate_statistics", "true");
                    configuration.setProperty("hibernate.cache.use_query_cache", "true");
                    configuration.setProperty(
                            "hibernate.cache.region.factory_class", Regions.class.getName());
                    configuration.setProperty(
                            "hibernate.cache.redisson.books.expiration.time_to_live", "60000");
                    var factory = configuration.buildSessionFactory();
                    factory.inTransaction(session -> session.persist(new Book(1, "one")));
                    for (int i = 0; i < 2; i++) {
                        factory.inTransaction(
                                session -> show("read", session.find(Book.class, 1L).title));
                    }
                    factory.inTransaction(session -> session.find(Book.class, 1L).title = "two");
                    factory.inTransaction(
                            session -> show("changed", session.find(Book.class, 1L).title));
                    for (int i = 0; i < 2; i++) {
                        factory.inTransaction(
                                session ->
                                        show(
                                                "asked",
                                                session.createQuery("from Book", Book.class)
                                                        .setCacheable(true)
                                                        .list()
                                                        .size()));
                    }
                    var counts = factory.getStatistics();
                    show("hits", counts.getSecondLevelCacheHitCount() > 0);
                    show("queries", counts.getQueryCacheHitCount());
                    factory.getCache().evictAllRegions();
                    factory.inTransaction(
                            session -> show("again", session.find(Book.class, 1L).title));
                    factory.close();
                });
    }
}
