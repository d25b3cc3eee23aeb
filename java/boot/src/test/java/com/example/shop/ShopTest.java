package com.example.shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.CacheClient;
import cellar.client.spring.CellarCacheManager;
import cellar.client.testing.Await;
import cellar.client.testing.Server;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.netty.util.Version;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootVersion;
import org.springframework.cache.CacheManager;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** The application with the versions of Boot, Spring and Netty that the build selects, twice. */
@Tag("deep")
class ShopTest {
    private static Server server;
    private static ConfigurableApplicationContext one;
    private static ConfigurableApplicationContext other;

    /** A meter registry, as an application with an actuator has one. */
    @Configuration
    static class Meters {
        @Bean
        MeterRegistry registry() {
            return new SimpleMeterRegistry();
        }
    }

    @BeforeAll
    static void open() throws Exception {
        server = Server.start(Server.Kind.CELLAR);
        one = start();
        other = start();
    }

    private static ConfigurableApplicationContext start() {
        SpringApplication application = new SpringApplication(Shop.class, Meters.class);
        return application.run(
                "--cellar.client.nodes=" + server.node().address(),
                "--cellar.client.tracking-port=" + server.respPort(),
                "--cellar.client.timeout=20s",
                "--cellar.client.connect-timeout=20s");
    }

    @AfterAll
    static void shut() {
        one.close();
        other.close();
        server.close();
    }

    private static Books books(ConfigurableApplicationContext application) {
        return application.getBean(Books.class);
    }

    private static int asked(ConfigurableApplicationContext application) {
        return application.getBean(Store.class).asked();
    }

    @Test
    void bootBringsItsOwnNetty() {
        String boot = System.getProperty("expected.boot");
        String netty = System.getProperty("expected.netty");
        assertTrue(SpringBootVersion.getVersion().startsWith(boot), SpringBootVersion::getVersion);
        String found = Version.identify().get("netty-handler").artifactVersion();
        assertTrue(found.startsWith(netty), found);
        assertTrue(one.getBean(CacheManager.class) instanceof CellarCacheManager);
    }

    @Test
    void aBookIsReadOnceByBothAndChangesForBoth() throws Exception {
        Book book = new Book("1", "Dracula");
        one.getBean(Store.class).put(book);
        int before = asked(one);
        assertEquals(book, books(one).find("1"));
        assertEquals(book, books(one).find("1"));
        assertEquals(before + 1, asked(one));
        int elsewhere = asked(other);
        assertEquals(book, books(other).find("1"));
        assertEquals(elsewhere, asked(other), "the other has asked its store");
        Book changed = new Book("1", "Carmilla");
        books(one).change(changed);
        assertEquals(changed, books(one).find("1"));
        Await.until("the change", () -> changed.equals(books(other).find("1")));
    }

    @Test
    void thatThereIsNoBookIsRemembered() {
        int before = asked(one);
        assertNull(books(one).find("none"));
        assertNull(books(one).find("none"));
        assertEquals(before + 1, asked(one));
        assertNull(books(other).find("none"));
    }

    @Test
    void listsHaveATypeOfTheirOwn() {
        one.getBean(Store.class).put(new Book("2", "Emma"));
        List<Book> all = books(one).all();
        assertEquals(all, books(one).all());
        assertTrue(books(other).all().stream().anyMatch(book -> book.isbn().equals("2")));
    }

    @Test
    void allEntriesGoForBoth() throws Exception {
        one.getBean(Store.class).put(new Book("3", "Middlemarch"));
        other.getBean(Store.class).put(new Book("3", "Middlemarch, again"));
        assertEquals("Middlemarch", books(one).find("3").title());
        assertEquals("Middlemarch", books(other).find("3").title());
        books(one).forgetAll();
        Await.until(
                "the other's store",
                () -> books(other).find("3").title().equals("Middlemarch, again"));
    }

    @Test
    void requestsAreMetered() {
        books(one).find("metered");
        MeterRegistry registry = one.getBean(MeterRegistry.class);
        assertTrue(registry.get("cellar.client.requests").timers().size() > 0);
    }

    @Test
    void theClientItselfIsThereToo() {
        CacheClient<?> client = one.getBean(CacheClient.class);
        assertNull(client.blocking().get("nothing"));
    }
}
