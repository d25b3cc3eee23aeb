package cellar.client.internal.cluster;

import cellar.client.internal.wire.Operation;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A change of an item, with its effect on other copies.
 *
 * @param key the item's key
 * @param operation what the item's home is asked; one for each attempt
 * @param again whether another attempt may follow one whose fate is not known
 * @param effect what the other copies need, given the answer; null for nothing
 */
@SuppressWarnings("ArrayRecordComponent")
public record Request<R extends @Nullable Object>(
        byte[] key,
        Supplier<? extends Operation<R>> operation,
        boolean again,
        BiFunction<? super Operation<R>, ? super R, ? extends @Nullable Change> effect) {}
