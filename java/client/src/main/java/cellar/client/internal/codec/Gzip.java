package cellar.client.internal.codec;

import cellar.client.CacheException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/** The compression of spymemcached and of whalin's client. */
final class Gzip {
    /** Limit of a decompressed value. */
    private static final int BYTES_MAX = 64 << 20;

    private Gzip() {}

    static byte[] compress(byte[] bytes) {
        ByteArrayOutputStream target = new ByteArrayOutputStream(bytes.length / 2);
        try (GZIPOutputStream gzip = new GZIPOutputStream(target)) {
            gzip.write(bytes);
        } catch (IOException e) {
            throw new CacheException.Coding("a value cannot be compressed", e);
        }
        return target.toByteArray();
    }

    static byte[] decompress(byte[] bytes) {
        try (GZIPInputStream gzip = new GZIPInputStream(new ByteArrayInputStream(bytes))) {
            byte[] whole = gzip.readNBytes(BYTES_MAX + 1);
            if (whole.length > BYTES_MAX) {
                throw new CacheException.Coding("a value of more than " + BYTES_MAX, null);
            }
            return whole;
        } catch (IOException e) {
            throw new CacheException.Coding("a value cannot be decompressed", e);
        }
    }
}
