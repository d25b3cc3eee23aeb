package cellar.client.jcache;

import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Set;
import javax.cache.Cache;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/** Reads each entry of a cache when it is reached; leaves out those that do not exist any more. */
@NullMarked
final class CellarIterator<K, V> implements Iterator<Cache.Entry<K, V>> {
    private final CellarCache<K, V> cache;
    private final Iterator<String> keys;
    private Cache.@Nullable Entry<K, V> next;
    private @Nullable K last;

    CellarIterator(CellarCache<K, V> cache, Set<String> keys) {
        this.cache = cache;
        this.keys = keys.iterator();
    }

    @Override
    @SuppressWarnings("unchecked")
    public boolean hasNext() {
        while (next == null && keys.hasNext()) {
            K key = (K) keys.next();
            V value = cache.cached(key);
            next = value == null ? null : new CellarEntry<>(key, value);
        }
        return next != null;
    }

    @Override
    public Cache.Entry<K, V> next() {
        Cache.Entry<K, V> entry = hasNext() ? next : null;
        if (entry == null) {
            throw new NoSuchElementException();
        }
        next = null;
        last = entry.getKey();
        return entry;
    }

    @Override
    public void remove() {
        K key = last;
        if (key == null) {
            throw new IllegalStateException("nothing was given out");
        }
        cache.remove(key);
        last = null;
    }
}
