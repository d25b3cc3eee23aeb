package cellar.client.jcache;

import java.util.function.Function;
import javax.cache.processor.MutableEntry;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/** An entry for an entry processor, an iterator or a writer. */
@NullMarked
final class CellarEntry<K, V> implements MutableEntry<K, V> {
    private final K key;
    private @Nullable V value;
    private final @Nullable Function<K, @Nullable V> loader;
    private boolean changed;

    CellarEntry(K key, @Nullable V value) {
        this(key, value, null);
    }

    /** Calls {@code loader} when the value is requested and there is none. */
    CellarEntry(K key, @Nullable V value, @Nullable Function<K, @Nullable V> loader) {
        this.key = key;
        this.value = value;
        this.loader = loader;
    }

    @Override
    public K getKey() {
        return key;
    }

    @Override
    public @Nullable V getValue() {
        if (value == null && !changed && loader != null) {
            value = loader.apply(key);
        }
        return value;
    }

    /** Returns the value, without loading it. */
    @Nullable V now() {
        return value;
    }

    @Override
    public boolean exists() {
        return value != null;
    }

    @Override
    public void remove() {
        value = null;
        changed = true;
    }

    @Override
    public void setValue(V now) {
        value = now;
        changed = true;
    }

    boolean isChanged() {
        return changed;
    }

    @Override
    public <T> T unwrap(Class<T> type) {
        if (type.isInstance(this)) {
            return type.cast(this);
        }
        throw new IllegalArgumentException("not a " + type);
    }
}
