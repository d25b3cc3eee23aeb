package cellar.client.jcache;

import javax.cache.processor.MutableEntry;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/** An entry that a processor works on, or that an iterator gives out. */
@NullMarked
final class CellarEntry<K, V> implements MutableEntry<K, V> {
    private final K key;
    private @Nullable V value;
    private boolean changed;

    CellarEntry(K key, @Nullable V value) {
        this.key = key;
        this.value = value;
    }

    @Override
    public K getKey() {
        return key;
    }

    @Override
    public @Nullable V getValue() {
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
