package cellar.client.internal;

import cellar.client.CacheException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import org.jspecify.annotations.Nullable;

/** Waits for stages. */
public final class Stages {
    private Stages() {}

    /** The results of all {@code parts}, in their order; fails when one has failed. */
    public static <T extends @Nullable Object> CompletableFuture<List<T>> all(
            List<CompletableFuture<T>> parts) {
        return CompletableFuture.allOf(parts.toArray(CompletableFuture[]::new))
                .thenApply(done -> results(parts));
    }

    private static <T extends @Nullable Object> List<T> results(List<CompletableFuture<T>> parts) {
        List<T> results = new ArrayList<>(parts.size());
        parts.forEach(part -> results.add(part.join()));
        return results;
    }

    /** Waits for {@code stage}; throws its {@link CacheException}. */
    static <T extends @Nullable Object> T await(CompletionStage<T> stage) {
        try {
            return stage.toCompletableFuture().get();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CacheException.Loading("interrupted", e);
        } catch (ExecutionException e) {
            throw known(e.getCause() == null ? e : e.getCause());
        }
    }

    /** {@code failure} as an exception of ours; a stage may have wrapped it. */
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
