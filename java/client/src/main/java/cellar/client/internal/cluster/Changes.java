package cellar.client.internal.cluster;

import cellar.client.CacheException;
import cellar.client.internal.Stages;
import cellar.client.internal.cluster.CopyQueue.Pace;
import cellar.client.internal.cluster.Peer.If;
import cellar.client.internal.cluster.View.State;
import cellar.client.internal.wire.CountOperation;
import cellar.client.internal.wire.Mark.Kind;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Changes items on replicated nodes: at the home node before the caller gets the answer, and on the
 * other nodes after that.
 *
 * <p>A delete is acknowledged when all nodes in use have it, a counter when its next home has it.
 */
final class Changes {
    private static final int ATTEMPTS_MAX = 64;
    private static final long RETRY_MS = 5;
    private static final long PAUSE_MS = 20;
    private static final int FAILURES_MAX = 10;

    private final Watch watch;
    private final long timeout_ms;
    private final Unanswered unanswered;

    Changes(Watch watch, long timeout_ms) {
        this.watch = watch;
        this.timeout_ms = timeout_ms;
        this.unanswered = new Unanswered(watch, this::tell);
    }

    /** One change of one item in progress. */
    private final class Change<R extends @Nullable Object> {
        final byte[] key;
        final long hash;
        final Edit<R> edit;
        final long until_ms = watch.ticks().now_ms() + 2 * timeout_ms + watch.timing().pause();
        private int attempts;
        private int failures;

        Change(byte[] key, Edit<R> edit) {
            this.key = key;
            this.hash = Homes.hash(key);
            this.edit = edit;
        }

        /** Makes the change at once over {@code first}, or waits until it is allowed. */
        CompletableFuture<R> make(Function<Replica, Peer> first) {
            if (!watch.isFresh()) {
                return make();
            }
            try {
                return makeSettled(first);
            } catch (CacheException e) {
                return failed(e);
            }
        }

        /** Waits until the change is allowed, and makes it. From here on no thread blocks. */
        private CompletableFuture<R> make() {
            return watch.fresh(until_ms).thenCompose(fresh -> makeSettled(Replica::home));
        }

        private CompletableFuture<R> makeSettled(Function<Replica, Peer> over) {
            // Read before settlesIn_ms: later homes may not be settled.
            Homes homes = watch.homes();
            long wait_ms = watch.settlesIn_ms(hash);
            if (wait_ms > 0) {
                return late() ? failed(unsettled()) : after(wait_ms, this::make);
            }
            Replica home = homes.home(hash);
            return home == null ? failed(unsettled()) : at(home, over.apply(home), homes);
        }

        private boolean late() {
            return watch.ticks().now_ms() >= until_ms;
        }

        @SuppressWarnings("unchecked")
        private CompletableFuture<R> at(Replica home, Peer over, Homes homes) {
            if (edit instanceof Edit.Put<R> put) {
                return put(home, over, put, homes);
            }
            if (edit instanceof Edit.Count count) {
                return (CompletableFuture<R>) count(home, over, count, homes);
            }
            return decide(home, over, (Edit.Decide<R>) edit, homes);
        }

        private CompletableFuture<R> put(Replica home, Peer over, Edit.Put<R> put, Homes homes) {
            Item item = put.item().in(homes.view().number());
            return over.store(key, item, If.ANY, 0)
                    .handle(
                            (stored, failure) ->
                                    failure != null
                                            ? failedToPut(home, homes, failure)
                                            : stored(
                                                    home,
                                                    homes,
                                                    copied(home, homes, item, stored.version()),
                                                    put.answer(),
                                                    item.isNumber(),
                                                    false,
                                                    true))
                    .thenCompose(stage -> stage);
        }

        private CompletableFuture<R> decide(
                Replica home, Peer over, Edit.Decide<R> decide, Homes homes) {
            return over.read(key)
                    .handle(
                            (found, failure) -> {
                                if (failure != null) {
                                    return failedAt(home, homes, failure, true);
                                }
                                Edit.Decision<R> decision = decide.decide().apply(found);
                                return decision.next() == null
                                        ? unchanged(home, homes, found, decision.answer(), decide)
                                        : decided(home, over, homes, found, decision, decide);
                            })
                    .thenCompose(stage -> stage);
        }

        /** The decision is valid only if the home was the home when the item was read. */
        private CompletableFuture<R> unchanged(
                Replica home, Homes homes, Found found, R answer, Edit.Decide<R> decide) {
            if (!watch.isHome(home, homes, hash)) {
                return again();
            }
            Item item = found.item();
            boolean gone = item != null && item.kind() == Kind.GONE;
            if (!decide.everywhere() || !gone) {
                return CompletableFuture.completedFuture(answer);
            }
            return everywhere(home, copied(home, homes, item, found.version()))
                    .thenApply(done -> answer);
        }

        private CompletableFuture<R> decided(
                Replica home,
                Peer over,
                Homes homes,
                Found found,
                Edit.Decision<R> decision,
                Edit.Decide<R> decide) {
            Item next = Objects.requireNonNull(decision.next()).in(homes.view().number());
            If condition = found.item() == null ? If.ABSENT : If.SAME;
            return over.store(key, next, condition, found.version())
                    .handle(
                            (stored, failure) -> {
                                if (failure != null) {
                                    return failedAt(home, homes, failure, decide.again());
                                }
                                if (!stored.done()) {
                                    return again();
                                }
                                return stored(
                                        home,
                                        homes,
                                        copied(home, homes, next, stored.version()),
                                        decision.answer(),
                                        next.isNumber(),
                                        decide.everywhere(),
                                        decide.again());
                            })
                    .thenCompose(stage -> stage);
        }

        private CompletableFuture<@Nullable Long> count(
                Replica home, Peer over, Edit.Count count, Homes homes) {
            return over.count(key, count)
                    .handle(
                            (number, failure) -> {
                                if (failure != null
                                        && Stages.known(failure)
                                                instanceof CacheException.Refused) {
                                    return new Change<>(key, countAnew(count))
                                            .at(home, over, homes);
                                }
                                if (failure != null) {
                                    return Change.<@Nullable Long>lost(this, home, homes, failure);
                                }
                                return number == null
                                        ? CompletableFuture.<@Nullable Long>completedFuture(null)
                                        : secured(home, homes)
                                                .<@Nullable Long>thenApply(done -> number);
                            })
                    .thenCompose(stage -> stage);
        }

        private static <T extends @Nullable Object> CompletableFuture<T> lost(
                Changes.Change<?> change, Replica home, Homes homes, Throwable failure) {
            change.givenUp(home, homes, failure);
            return CompletableFuture.failedFuture(Stages.known(failure));
        }

        private void givenUp(Replica home, Homes homes, Throwable failure) {
            if (Replica.isNodesFault(failure)) {
                watch.suspect(home);
                unanswered.add(home, homes, key);
            }
        }

        /**
         * Retries if the change may be executed twice: at the new home, or after a pause at the
         * same one.
         */
        private CompletableFuture<R> failedAt(
                Replica home, Homes homes, Throwable failure, boolean mayRepeat) {
            failures++;
            boolean last = late() || failures > FAILURES_MAX;
            if (!Replica.isNodesFault(failure) || !mayRepeat || last) {
                givenUp(home, homes, failure);
                return failed(Stages.known(failure));
            }
            watch.suspect(home);
            return watch.homes().home(hash) != home ? make() : after(PAUSE_MS, this::make);
        }

        /**
         * A value without an answer may still be stored at this home, after other clients' later
         * changes. So it is stored once more only if there is another home.
         */
        private CompletableFuture<R> failedToPut(Replica home, Homes homes, Throwable failure) {
            boolean unanswered = Stages.known(failure) instanceof CacheException.Timeout;
            if (!unanswered || !Replica.isNodesFault(failure)) {
                return failedAt(home, homes, failure, true);
            }
            watch.suspect(home);
            if (watch.homes().home(hash) != home) {
                return make();
            }
            if (late()) {
                givenUp(home, homes, failure);
                return failed(Stages.known(failure));
            }
            return after(PAUSE_MS, () -> failedToPut(home, homes, failure));
        }

        private CompletableFuture<R> again() {
            attempts++;
            if (attempts == ATTEMPTS_MAX || late()) {
                return failed(new CacheException.Refused("other clients keep changing the item"));
            }
            return make();
        }

        /**
         * The home has stored the item: the change is valid if the home has been the home all the
         * time.
         */
        private CompletableFuture<R> stored(
                Replica home,
                Homes homes,
                Item copy,
                R answer,
                boolean number,
                boolean everywhere,
                boolean mayRepeat) {
            if (!watch.isHome(home, homes, hash)) {
                return watch.fresh(until_ms)
                        .thenCompose(
                                fresh -> {
                                    if (watch.staysHome(home, homes, hash)) {
                                        return stored(
                                                home,
                                                homes,
                                                copy,
                                                answer,
                                                number,
                                                everywhere,
                                                mayRepeat);
                                    }
                                    return mayRepeat ? make() : failed(unsettled());
                                });
            }
            if (number) {
                return secured(home, homes).thenApply(done -> answer);
            }
            if (everywhere) {
                return everywhere(home, copy).thenApply(done -> answer);
            }
            spread(home, key, copy, Pace.SOON);
            return CompletableFuture.completedFuture(answer);
        }

        /** Completes when all other nodes have the copy or are out. */
        private CompletableFuture<@Nullable Void> everywhere(Replica home, Item copy) {
            return Stages.all(spread(home, key, copy, Pace.AT_ONCE))
                    .thenCompose(
                            all -> {
                                if (!all.contains(false)) {
                                    return CompletableFuture.completedFuture(null);
                                }
                                return late()
                                        ? CompletableFuture.failedFuture(unsettled())
                                        : after(RETRY_MS, () -> everywhere(home, copy));
                            });
        }

        /**
         * Completes when each node that may become the home next has the number, so that none
         * continues from an older one.
         */
        private CompletableFuture<@Nullable Void> secured(Replica home, Homes homes) {
            List<CompletableFuture<Boolean>> heirs = new ArrayList<>();
            View view = watch.homes().view();
            Replica next = watch.homes().next(hash, home);
            for (Replica replica : watch.replicas()) {
                State state = view.state(replica.name());
                if (replica != home && state != State.OUT) {
                    CompletableFuture<Boolean> told = replica.queue().add(key, null, Pace.AT_ONCE);
                    if (replica == next || state == State.FILLING) {
                        heirs.add(told);
                    }
                }
            }
            return Stages.all(heirs)
                    .thenCompose(
                            all -> {
                                if (watch.isHome(home, homes, hash) && !all.contains(false)) {
                                    return CompletableFuture.completedFuture(null);
                                }
                                if (late() || !watch.staysHome(home, homes, hash)) {
                                    return CompletableFuture.failedFuture(unsettled());
                                }
                                return after(RETRY_MS, () -> watch.fresh(until_ms))
                                        .thenCompose(fresh -> secured(home, homes));
                            });
        }
    }

    private static Item copied(Replica home, Homes homes, Item item, long version) {
        return item.copied(homes.numberOf(home), version);
    }

    /** Makes a change. */
    <R extends @Nullable Object> CompletableFuture<R> make(byte[] key, Edit<R> edit) {
        return make(key, edit, Replica::home);
    }

    /**
     * Makes a change, over {@code first} if it can be made at once. If {@code first} uses the
     * calling thread, this thread does not wait for others: retries use {@link Replica#home}.
     */
    <R extends @Nullable Object> CompletableFuture<R> make(
            byte[] key, Edit<R> edit, Function<Replica, Peer> first) {
        return new Change<>(key, edit).make(first);
    }

    private void tell(Replica home, Homes homes, byte[] key, Found found) {
        Item copy = found.copy(homes.numberOf(home));
        if (copy != null) {
            spread(home, key, copy.isNumber() ? null : copy, Pace.AT_ONCE);
        }
    }

    /**
     * Queues the item of {@code home} for the other nodes; {@code copy} is null if it has no order.
     */
    private List<CompletableFuture<Boolean>> spread(
            Replica home, byte[] key, @Nullable Item copy, Pace pace) {
        List<CompletableFuture<Boolean>> told = new ArrayList<>();
        View view = watch.homes().view();
        for (Replica replica : watch.replicas()) {
            if (replica != home && view.state(replica.name()) != State.OUT) {
                told.add(replica.queue().add(key, copy, pace));
            }
        }
        return told;
    }

    /** Counts an item that the server cannot count: a tombstone or a copy. */
    private static Edit.Decide<@Nullable Long> countAnew(Edit.Count count) {
        return new Edit.Decide<>(
                found -> {
                    Item there = found.live();
                    if (there == null) {
                        return count.initial() < 0
                                ? new Edit.Decision<>(null, null)
                                : new Edit.Decision<>(
                                        number(count.initial(), count.expiry()), count.initial());
                    }
                    long next = count.next(CountOperation.parse(there.value()));
                    return new Edit.Decision<>(number(next, there.expiry()), next);
                },
                false,
                false);
    }

    private static Item number(long number, long expiry) {
        byte[] digits = Long.toString(number).getBytes(StandardCharsets.US_ASCII);
        return Item.of(Kind.VALUE, digits, 0, expiry);
    }

    private <T extends @Nullable Object> CompletableFuture<T> after(
            long wait_ms, Supplier<CompletableFuture<T>> task) {
        CompletableFuture<T> done = new CompletableFuture<>();
        watch.ticks()
                .later(
                        wait_ms,
                        () ->
                                task.get()
                                        .whenComplete(
                                                (answer, failure) -> {
                                                    if (failure == null) {
                                                        done.complete(answer);
                                                    } else {
                                                        done.completeExceptionally(
                                                                Stages.known(failure));
                                                    }
                                                }));
        return done;
    }

    private static <T extends @Nullable Object> CompletableFuture<T> failed(CacheException why) {
        return CompletableFuture.failedFuture(why);
    }

    private static CacheException unsettled() {
        return new CacheException.Connection("the key's home is about to change", null);
    }
}
