package com.example.shop;

/** What is sold. */
public record Book(String isbn, String title) {}
