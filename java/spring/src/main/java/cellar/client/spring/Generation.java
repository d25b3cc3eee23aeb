package cellar.client.spring;

import cellar.client.CacheClient;
import cellar.client.Ttl;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;

/**
 * A random word in the keys of one cache. A new word makes all earlier items unreachable.
 *
 * <p>The word is an item itself. It is random, so that after its loss it does not repeat an earlier
 * one and bring back cleared items. A process uses the word that it knows for a limited time
 * without a request; with tracking, a local cache ends that time sooner.
 */
@NullMarked
final class Generation {
    private static final int RADIX = 36;

    private record Known(String word, long seen_ns) {}

    private final CacheClient<String> client;
    private final String key;
    private final Duration ttl;
    private final boolean local;
    private volatile @Nullable Known known;

    Generation(CacheClient<String> client, String key, Duration ttl, boolean local) {
        this.client = client;
        this.key = key;
        this.ttl = ttl;
        this.local = local;
    }

    /** Returns the current word; the calling thread reads it if necessary. */
    String now() {
        String word = remembered();
        if (word != null) {
            return word;
        }
        long asked_ns = System.nanoTime();
        word = local ? client.blocking().get(key, ttl) : client.blocking().get(key);
        while (word == null) {
            String drawn = draw();
            boolean added = client.blocking().add(key, drawn, Ttl.NEVER);
            word = added ? drawn : ask();
        }
        return remember(word, asked_ns);
    }

    private @Nullable String ask() {
        return local ? client.blocking().get(key, Duration.ZERO) : client.blocking().get(key);
    }

    /** Returns the current word without blocking. */
    CompletableFuture<String> later() {
        String word = remembered();
        if (word != null) {
            return CompletableFuture.completedFuture(word);
        }
        long asked_ns = System.nanoTime();
        CompletionStage<@Nullable String> read = local ? client.get(key, ttl) : client.get(key);
        return read.thenCompose(found -> found == null ? add() : done(found))
                .thenApply(found -> remember(found, asked_ns))
                .toCompletableFuture();
    }

    private CompletionStage<String> add() {
        String drawn = draw();
        return client.add(key, drawn, Ttl.NEVER)
                .thenCompose(
                        added ->
                                added
                                        ? done(drawn)
                                        : client.get(key)
                                                .thenCompose(
                                                        other ->
                                                                other == null
                                                                        ? add()
                                                                        : done(other)));
    }

    private static CompletionStage<String> done(String word) {
        return CompletableFuture.completedFuture(word);
    }

    private @Nullable String remembered() {
        Known last = local ? null : known;
        boolean young = last != null && System.nanoTime() - last.seen_ns < ttl.toNanos();
        return young ? last.word : null;
    }

    private String remember(String word, long asked_ns) {
        if (!local) {
            known = new Known(word, asked_ns);
        }
        return word;
    }

    /** Sets another word; processes that know the last one may use it for the limited time. */
    void end() {
        String drawn = draw();
        long asked_ns = System.nanoTime();
        client.blocking().set(key, drawn, Ttl.NEVER);
        remember(drawn, asked_ns);
    }

    private static String draw() {
        return Long.toUnsignedString(ThreadLocalRandom.current().nextLong(), RADIX);
    }
}
