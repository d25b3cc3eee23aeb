package com.example.shop;

/** A book of the shop. */
public record Book(String isbn, String title) {}
