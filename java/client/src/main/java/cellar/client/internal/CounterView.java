package cellar.client.internal;

import cellar.client.CacheException;
import cellar.client.Counters;
import cellar.client.Ttl;
import cellar.client.internal.cluster.Request;
import cellar.client.internal.wire.CountOperation;
import cellar.client.internal.wire.Keys;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation.Mode;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;

/** Counters; emulates with several requests what the classic protocol lacks. */
final class CounterView implements Counters {
    /** Limit of attempts to create and change a counter, if the counter expires in between. */
    static final int ATTEMPTS_MAX = 8;

    private final AsyncView<?> view;

    CounterView(AsyncView<?> view) {
        this.view = view;
    }

    @Override
    public CompletionStage<@Nullable Void> store(String key, long number, Duration ttl) {
        return view.write(key, Requests.storeNumber(Keys.bytes(key), number, ttl, Mode.SET))
                .thenApply(stored -> null);
    }

    @Override
    public CompletionStage<@Nullable Long> get(String key) {
        byte[] bytes = Keys.bytes(key);
        int also = view.core().cluster().alsoRead();
        return view.core()
                .cluster()
                .read(bytes, () -> new ReadOperation<>(bytes, also, CounterView::number));
    }

    static @Nullable Long number(ReadOperation<?> read) {
        byte[] digits = read.bytes();
        return digits == null ? null : (Long) CountOperation.parse(digits);
    }

    @Override
    public CompletionStage<@Nullable Long> increment(String key, long by) {
        return view.write(key, Requests.count(Keys.bytes(key), by, false, -1, Ttl.NEVER));
    }

    @Override
    public CompletionStage<@Nullable Long> decrement(String key, long by) {
        return view.write(key, Requests.count(Keys.bytes(key), by, true, -1, Ttl.NEVER));
    }

    @Override
    public CompletionStage<Long> addOrIncrement(String key, long by, Duration ttl) {
        return count(key, by, false, by, ttl);
    }

    @Override
    public CompletionStage<Long> addOrDecrement(String key, long by, long initial, Duration ttl) {
        return count(key, by, true, initial, ttl);
    }

    static CacheException restless() {
        return new CacheException.Refused("the counter kept expiring or being deleted");
    }

    private CompletionStage<Long> count(
            String key, long by, boolean down, long initial, Duration ttl) {
        byte[] bytes = Keys.bytes(key);
        Requests.notNegative(initial);
        Request<@Nullable Long> request = Requests.count(bytes, by, down, initial, ttl);
        return view.write(key, request)
                .thenCompose(number -> found(number, key, by, down, initial, ttl, 1));
    }

    /** Only a server without meta commands returns no number; then the counter is added. */
    private CompletionStage<Long> found(
            @Nullable Long number,
            String key,
            long by,
            boolean down,
            long initial,
            Duration ttl,
            int attempt) {
        if (number != null) {
            return CompletableFuture.completedStage(number);
        }
        if (attempt > ATTEMPTS_MAX) {
            return CompletableFuture.failedStage(restless());
        }
        return view.write(key, Requests.storeNumber(Keys.bytes(key), initial, ttl, Mode.ADD))
                .thenCompose(
                        outcome -> {
                            if (AsyncView.stored(outcome)) {
                                return CompletableFuture.completedStage(initial);
                            }
                            return view.write(
                                            key,
                                            Requests.count(
                                                    Keys.bytes(key), by, down, -1, Ttl.NEVER))
                                    .thenCompose(
                                            now ->
                                                    found(
                                                            now,
                                                            key,
                                                            by,
                                                            down,
                                                            initial,
                                                            ttl,
                                                            attempt + 1));
                        });
    }
}
