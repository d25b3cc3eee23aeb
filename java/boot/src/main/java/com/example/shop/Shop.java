package com.example.shop;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cache.annotation.EnableCaching;

/** An application as docs/java.md shows it. */
@SpringBootApplication
@EnableCaching
public class Shop {
    /** Starts it. */
    public static void main(String[] arguments) {
        SpringApplication.run(Shop.class, arguments);
    }
}
