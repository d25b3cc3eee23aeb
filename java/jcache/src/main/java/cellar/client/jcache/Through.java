package cellar.client.jcache;

import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.cache.Cache;
import javax.cache.configuration.CompleteConfiguration;
import javax.cache.configuration.Factory;
import javax.cache.integration.CacheLoader;
import javax.cache.integration.CacheLoaderException;
import javax.cache.integration.CacheWriter;
import javax.cache.integration.CacheWriterException;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/**
 * The application's loader and writer, if the configuration has them.
 *
 * <p>Their exceptions are wrapped in {@link CacheLoaderException} and {@link CacheWriterException}.
 */
@NullMarked
final class Through<K, V> {
    private final @Nullable CacheLoader<K, V> loader;
    private final @Nullable CacheWriter<? super K, ? super V> writer;
    private final boolean reads;

    Through(CompleteConfiguration<K, V> configuration) {
        Factory<CacheLoader<K, V>> loaders = configuration.getCacheLoaderFactory();
        Factory<CacheWriter<? super K, ? super V>> writers = configuration.getCacheWriterFactory();
        reads = configuration.isReadThrough();
        boolean writes = configuration.isWriteThrough();
        if (reads && loaders == null || writes && writers == null) {
            throw new IllegalArgumentException(
                    "to read through needs a loader, to write through a writer");
        }
        loader = loaders == null ? null : loaders.create();
        writer = writes ? writers.create() : null;
    }

    /** Whether a miss calls the loader. */
    boolean reads() {
        return reads;
    }

    /** Whether changes go to the writer. */
    boolean writes() {
        return writer != null;
    }

    /** Whether there is a loader for {@link #loadAll}. */
    boolean hasLoader() {
        return loader != null;
    }

    /** Loads the value of {@code key}; null if there is none. */
    @Nullable V load(K key) {
        return loader == null ? null : loading(() -> loader.load(key));
    }

    /** Loads the values of {@code keys}; leaves out those that do not exist. */
    Map<K, V> loadAll(Collection<? extends K> keys) {
        Map<K, V> found = new LinkedHashMap<>();
        if (loader != null && !keys.isEmpty()) {
            loading(() -> loader.loadAll(keys))
                    .forEach(
                            (key, value) -> {
                                if (value != null) {
                                    found.put(key, value);
                                }
                            });
        }
        return found;
    }

    private static <T extends @Nullable Object> T loading(Supplier<T> load) {
        try {
            return load.get();
        } catch (CacheLoaderException e) {
            throw e;
        } catch (RuntimeException e) {
            throw new CacheLoaderException(e);
        }
    }

    void write(K key, V value) {
        if (writer != null) {
            writing(() -> writer.write(new CellarEntry<>(key, value)));
        }
    }

    void delete(K key) {
        if (writer != null) {
            writing(() -> writer.delete(key));
        }
    }

    /** Writes all entries, then passes those that were written to {@code written}. */
    void writeAll(Map<? extends K, ? extends V> entries, BiConsumer<K, V> written) {
        if (writer == null) {
            entries.forEach(written);
            return;
        }
        Map<K, V> done = new LinkedHashMap<>(entries);
        List<Cache.Entry<? extends K, ? extends V>> left = new ArrayList<>();
        entries.forEach((key, value) -> left.add(new CellarEntry<K, V>(key, value)));
        try {
            writing(() -> writeList(writer, left));
        } catch (CacheWriterException e) {
            left.forEach(entry -> done.remove(entry.getKey()));
            throw e;
        } finally {
            done.forEach(written);
        }
    }

    /** The writer removes from {@code left} the entries that it has written. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void writeList(CacheWriter writer, List left) {
        writer.writeAll(left);
    }

    /** Deletes all keys, then passes those that were deleted to {@code deleted}. */
    void deleteAll(Collection<? extends K> keys, Consumer<K> deleted) {
        if (writer == null) {
            keys.forEach(deleted);
            return;
        }
        List<K> done = new ArrayList<>(keys);
        List<K> left = new ArrayList<>(keys);
        try {
            writing(() -> writer.deleteAll(left));
        } catch (CacheWriterException e) {
            done.removeAll(left);
            throw e;
        } finally {
            done.forEach(deleted);
        }
    }

    private static void writing(Runnable write) {
        try {
            write.run();
        } catch (CacheWriterException e) {
            throw e;
        } catch (RuntimeException e) {
            throw new CacheWriterException(e);
        }
    }

    /** Closes the loader and the writer if they are closeable. */
    void close() {
        close(loader);
        close(writer);
    }

    private static void close(@Nullable Object part) {
        if (part instanceof Closeable closeable) {
            try {
                closeable.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
