package com.example.shop;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cache.annotation.EnableCaching;

/** The application shown in docs/java.md. */
@SpringBootApplication
@EnableCaching
public class Shop {
    /** Starts it. */
    public static void main(String[] arguments) {
        SpringApplication.run(Shop.class, arguments);
    }
}
