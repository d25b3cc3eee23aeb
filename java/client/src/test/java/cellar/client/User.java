package cellar.client;

/** A class that the examples store. */
public record User(String name) {}
