package com.example.shop;

import java.util.List;
import org.springframework.cache.annotation.CacheEvict;
import org.springframework.cache.annotation.CachePut;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.stereotype.Service;

/** Reads books through the cache. */
@Service
public class Books {
    private final Store store;

    /** Creates a service that reads from {@code store}. */
    public Books(Store store) {
        this.store = store;
    }

    /** Returns the book, or null, which is cached too. */
    @Cacheable(cacheNames = "books", sync = true)
    public Book find(String isbn) {
        return store.book(isbn);
    }

    /** Returns all books. */
    @Cacheable("shelves")
    public List<Book> all() {
        return store.all();
    }

    /** Changes a book in the store and in the cache. */
    @CachePut(cacheNames = "books", key = "#book.isbn")
    public Book change(Book book) {
        store.put(book);
        return book;
    }

    /** Clears the cache. */
    @CacheEvict(cacheNames = "books", allEntries = true)
    public void forgetAll() {}
}
