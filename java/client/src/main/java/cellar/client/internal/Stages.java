package cellar.client.internal;

import cellar.client.CacheException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Combines stages and waits for them. */
public final class Stages {
    /** Limit of requests of one call that are unanswered at the same time. */
    private static final int WINDOW = 1024;

    private Stages() {}

    /** Completes with the results of all {@code parts}, in their order; fails if one has failed. */
    public static <T extends @Nullable Object> CompletableFuture<List<T>> all(
            List<CompletableFuture<T>> parts) {
        return CompletableFuture.allOf(parts.toArray(CompletableFuture[]::new))
                .thenApply(done -> results(parts));
    }

    /**
     * Completes with the results of all {@code parts}, in their order, of which at most {@link
     * #WINDOW} are unanswered at the same time. If one fails, the others are still sent; then the
     * stage fails.
     */
    static <T extends @Nullable Object> CompletableFuture<List<T>> windowed(
            List<? extends Supplier<? extends CompletionStage<T>>> parts) {
        List<CompletableFuture<T>> asked = new ArrayList<>(parts.size());
        CompletableFuture<@Nullable Void> turn = CompletableFuture.completedFuture(null);
        for (int from = 0; from < parts.size(); from += WINDOW) {
            var window = parts.subList(from, Math.min(from + WINDOW, parts.size()));
            turn = turn.thenCompose(done -> ask(window, asked));
        }
        return turn.thenCompose(done -> all(asked));
    }

    private static <T extends @Nullable Object> CompletableFuture<@Nullable Void> ask(
            List<? extends Supplier<? extends CompletionStage<T>>> parts,
            List<CompletableFuture<T>> asked) {
        List<CompletableFuture<T>> mine = new ArrayList<>(parts.size());
        parts.forEach(part -> mine.add(part.get().toCompletableFuture()));
        asked.addAll(mine);
        return all(mine).handle((results, failure) -> null);
    }

    private static <T extends @Nullable Object> List<T> results(List<CompletableFuture<T>> parts) {
        List<T> results = new ArrayList<>(parts.size());
        parts.forEach(part -> results.add(part.join()));
        return results;
    }

    /** Waits for {@code stage}; throws its {@link CacheException}. */
    public static <T extends @Nullable Object> T await(CompletionStage<T> stage) {
        try {
            return stage.toCompletableFuture().get();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CacheException.Loading("interrupted", e);
        } catch (ExecutionException e) {
            throw known(e.getCause() == null ? e : e.getCause());
        }
    }

    /** Returns {@code failure} as a {@link CacheException}; unwraps the exception of a stage. */
    public static CacheException known(Throwable failure) {
        Throwable cause = failure;
        while (cause instanceof CompletionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof CacheException known) {
            return known;
        }
        return new CacheException.Protocol("the client failed: " + cause);
    }
}
