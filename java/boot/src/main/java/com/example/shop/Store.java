package com.example.shop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.stereotype.Component;

/** Stands for a database, and counts the reads. */
@Component
public class Store {
    private final Map<String, Book> books = new ConcurrentHashMap<>();
    private final AtomicInteger asked = new AtomicInteger();

    /** Returns the book, or null. */
    public Book book(String isbn) {
        asked.incrementAndGet();
        return books.get(isbn);
    }

    /** Returns all books. */
    public List<Book> all() {
        asked.incrementAndGet();
        return List.copyOf(books.values());
    }

    /** Changes or adds a book. */
    public void put(Book book) {
        books.put(book.isbn(), book);
    }

    /** Returns the number of reads. */
    public int asked() {
        return asked.get();
    }
}
