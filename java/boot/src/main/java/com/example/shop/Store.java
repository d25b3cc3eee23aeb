package com.example.shop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.stereotype.Component;

/** Stands for a database, and counts what it is asked. */
@Component
public class Store {
    private final Map<String, Book> books = new ConcurrentHashMap<>();
    private final AtomicInteger asked = new AtomicInteger();

    /** The book, or null. */
    public Book book(String isbn) {
        asked.incrementAndGet();
        return books.get(isbn);
    }

    /** All books. */
    public List<Book> all() {
        asked.incrementAndGet();
        return List.copyOf(books.values());
    }

    /** Changes or adds a book. */
    public void put(Book book) {
        books.put(book.isbn(), book);
    }

    /** How often it was asked. */
    public int asked() {
        return asked.get();
    }
}
