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

    /** Reads from {@code store}. */
    public Books(Store store) {
        this.store = store;
    }

    /** The book, or null, which is remembered too. */
    @Cacheable(cacheNames = "books", sync = true)
    public Book find(String isbn) {
        return store.book(isbn);
    }

    /** All books. */
    @Cacheable("shelves")
    public List<Book> all() {
        return store.all();
    }

    /** Changes a book, and the copy of it. */
    @CachePut(cacheNames = "books", key = "#book.isbn")
    public Book change(Book book) {
        store.put(book);
        return book;
    }

    /** Forgets all copies, without a list of them. */
    @CacheEvict(cacheNames = "books", allEntries = true)
    public void forgetAll() {}
}
