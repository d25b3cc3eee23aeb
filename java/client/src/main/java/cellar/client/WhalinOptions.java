package cellar.client;

import org.jspecify.annotations.Nullable;

/**
 * What values of {@link Codecs#whalin(WhalinOptions)} may be. Immutable.
 *
 * @param javaClasses whose objects are serialised; null for none, which are refused then
 * @param compressedFrom so many bytes and more are compressed, if that makes them less
 */
public record WhalinOptions(@Nullable JavaClasses javaClasses, int compressedFrom) {
    /** What the old client compresses unless it is told otherwise. */
    public static final int COMPRESSED_FROM = 30721;

    /** No objects, nothing compressed. */
    public static WhalinOptions plain() {
        return new WhalinOptions(null, Integer.MAX_VALUE);
    }

    /** The same with objects of these classes. */
    public WhalinOptions javaClasses(JavaClasses classes) {
        return new WhalinOptions(classes, compressedFrom);
    }

    /** The same with values of so many bytes and more compressed. */
    public WhalinOptions compressedFrom(int bytes) {
        return new WhalinOptions(javaClasses, bytes);
    }
}
