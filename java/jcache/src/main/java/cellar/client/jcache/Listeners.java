package cellar.client.jcache;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import javax.cache.Cache;
import javax.cache.configuration.CacheEntryListenerConfiguration;
import javax.cache.configuration.Factory;
import javax.cache.event.CacheEntryCreatedListener;
import javax.cache.event.CacheEntryEvent;
import javax.cache.event.CacheEntryEventFilter;
import javax.cache.event.CacheEntryListener;
import javax.cache.event.CacheEntryListenerException;
import javax.cache.event.CacheEntryRemovedListener;
import javax.cache.event.CacheEntryUpdatedListener;
import javax.cache.event.EventType;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/**
 * The listeners of one cache object of this process.
 *
 * <p>They get its own changes. There are no events for changes by other clients, expiry and
 * eviction, because a server does not report the old values. An asynchronous listener is called on
 * a separate thread, in the order of the events. If {@link #WAITING_MAX} events are queued, the
 * thread that causes another one calls the listener itself.
 */
@NullMarked
final class Listeners<K, V> implements AutoCloseable {
    /** Limit of queued events. */
    private static final int WAITING_MAX = 10_000;

    private static final long IDLE_S_MAX = 10;

    private final class Registration {
        final CacheEntryListenerConfiguration<K, V> configuration;
        final CacheEntryListener<? super K, ? super V> listener;
        final @Nullable CacheEntryEventFilter<? super K, ? super V> filter;

        Registration(CacheEntryListenerConfiguration<K, V> configuration) {
            this.configuration = configuration;
            listener = configuration.getCacheEntryListenerFactory().create();
            Factory<CacheEntryEventFilter<? super K, ? super V>> filters =
                    configuration.getCacheEntryEventFilterFactory();
            filter = filters == null ? null : filters.create();
        }

        void tell(Event<K, V> event) {
            if (filter != null && !filter.evaluate(event)) {
                return;
            }
            if (configuration.isSynchronous()) {
                call(event);
            } else {
                later.execute(() -> callQuietly(event));
            }
        }

        @SuppressWarnings("unchecked") // A listener for supertypes of K and V accepts both.
        private void call(Event<K, V> event) {
            Iterable<CacheEntryEvent<? extends K, ? extends V>> events = List.of(event);
            switch (event.getEventType()) {
                case CREATED -> {
                    if (listener instanceof CacheEntryCreatedListener<?, ?> told) {
                        ((CacheEntryCreatedListener<K, V>) told).onCreated(events);
                    }
                }
                case UPDATED -> {
                    if (listener instanceof CacheEntryUpdatedListener<?, ?> told) {
                        ((CacheEntryUpdatedListener<K, V>) told).onUpdated(events);
                    }
                }
                default -> {
                    if (listener instanceof CacheEntryRemovedListener<?, ?> told) {
                        ((CacheEntryRemovedListener<K, V>) told).onRemoved(events);
                    }
                }
            }
        }

        private void callQuietly(Event<K, V> event) {
            try {
                call(event);
            } catch (RuntimeException e) {
                Thread thread = Thread.currentThread();
                thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
            }
        }
    }

    /** A change of an entry. */
    private static final class Event<K, V> extends CacheEntryEvent<K, V> {
        private static final long serialVersionUID = 1L;

        private final transient K key;
        private final transient @Nullable V value;
        private final transient @Nullable V old;

        Event(Cache<K, V> cache, EventType type, K key, @Nullable V value, @Nullable V old) {
            super(cache, type);
            this.key = key;
            this.value = value;
            this.old = old;
        }

        @Override
        public @Nullable V getOldValue() {
            return old;
        }

        @Override
        public boolean isOldValueAvailable() {
            return old != null;
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
        public <T> T unwrap(Class<T> type) {
            if (type.isInstance(this)) {
                return type.cast(this);
            }
            throw new IllegalArgumentException("not a " + type);
        }
    }

    private final Cache<K, V> cache;
    private final List<Registration> registrations = new CopyOnWriteArrayList<>();
    private final ThreadPoolExecutor later;

    Listeners(Cache<K, V> cache) {
        this.cache = cache;
        later =
                new ThreadPoolExecutor(
                        1,
                        1,
                        IDLE_S_MAX,
                        TimeUnit.SECONDS,
                        new ArrayBlockingQueue<>(WAITING_MAX),
                        task -> {
                            Thread thread = new Thread(task, "cellar-listeners");
                            thread.setDaemon(true);
                            return thread;
                        },
                        new ThreadPoolExecutor.CallerRunsPolicy());
        later.allowCoreThreadTimeOut(true);
    }

    /** Whether there are no listeners. */
    boolean isEmpty() {
        return registrations.isEmpty();
    }

    void add(CacheEntryListenerConfiguration<K, V> configuration) {
        boolean known = registrations.stream().anyMatch(r -> r.configuration.equals(configuration));
        if (known) {
            throw new IllegalArgumentException("this listener is registered already");
        }
        registrations.add(new Registration(configuration));
    }

    void remove(CacheEntryListenerConfiguration<K, V> configuration) {
        registrations.removeIf(r -> r.configuration.equals(configuration));
    }

    /** A value was stored; {@code old} is the value before, null for none. */
    void stored(K key, @Nullable V old, V value) {
        tell(old == null ? EventType.CREATED : EventType.UPDATED, key, value, old);
    }

    /** A value was removed. */
    void removed(K key, V old) {
        tell(EventType.REMOVED, key, old, old);
    }

    /** Calls all listeners, then throws the first failure of a synchronous one. */
    private void tell(EventType type, K key, @Nullable V value, @Nullable V old) {
        List<RuntimeException> failures = new ArrayList<>();
        for (Registration registration : registrations) {
            try {
                registration.tell(new Event<>(cache, type, key, value, old));
            } catch (RuntimeException e) {
                failures.add(e);
            }
        }
        if (!failures.isEmpty()) {
            RuntimeException first = failures.get(0);
            throw first instanceof CacheEntryListenerException known
                    ? known
                    : new CacheEntryListenerException(first);
        }
    }

    @Override
    public void close() {
        later.shutdown();
    }
}
