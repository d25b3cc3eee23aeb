package cellar.client;

import org.jspecify.annotations.Nullable;

/**
 * Options of {@link Codecs#whalin(WhalinOptions)}. Immutable.
 *
 * @param javaClasses classes whose objects are serialised; null to reject objects
 * @param compressedFrom size in bytes from which a value is compressed, if that makes it smaller
 */
public record WhalinOptions(@Nullable JavaClasses javaClasses, int compressedFrom) {
    /** The default of whalin's client for {@code compressedFrom}. */
    public static final int COMPRESSED_FROM = 30721;

    /** Returns options without objects and without compression. */
    public static WhalinOptions plain() {
        return new WhalinOptions(null, Integer.MAX_VALUE);
    }

    /** Returns these options with objects of these classes. */
    public WhalinOptions javaClasses(JavaClasses classes) {
        return new WhalinOptions(classes, compressedFrom);
    }

    /** Returns these options with compression of values of at least {@code bytes}. */
    public WhalinOptions compressedFrom(int bytes) {
        return new WhalinOptions(javaClasses, bytes);
    }
}
