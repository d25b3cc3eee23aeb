package cellar.client.coherence;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.jspecify.annotations.Nullable;

/**
 * Threads that read and write during faults, and the results of their reads.
 *
 * @param <F> the possible faults
 */
abstract class CoherenceChecker<F extends Enum<F>> implements AutoCloseable {
    /** The number of reads that a valid check needs; a busy machine takes longer for them. */
    static final long READS_MIN = 1000;

    private static final Duration PATIENCE = Duration.ofMinutes(1);

    final Random random;
    private final List<F> faults;
    private final Map<History.Wrong, LongAdder> wrong = new EnumMap<>(History.Wrong.class);
    private final Map<F, LongAdder> done;
    private final LongAdder reads = new LongAdder();
    private final LongAdder failures = new LongAdder();
    private final AtomicLong worst_ns = new AtomicLong();
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean over;
    private volatile @Nullable Throwable broken;

    CoherenceChecker(Class<F> kinds, Set<F> faults, long seed) {
        this.faults = List.copyOf(faults);
        this.random = new Random(seed);
        for (History.Wrong kind : History.Wrong.values()) {
            wrong.put(kind, new LongAdder());
        }
        done = new EnumMap<>(kinds);
        for (F fault : kinds.getEnumConstants()) {
            done.put(fault, new LongAdder());
        }
    }

    /** Starts the readers and writers. */
    abstract void begin() throws Exception;

    /** Injects a fault and ends it. */
    abstract void disturb(F fault) throws Exception;

    /** Starts a thread that runs until {@link #isOver}. */
    final void start(String name, Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setUncaughtExceptionHandler((which, problem) -> broken = problem);
        thread.start();
        threads.add(thread);
    }

    /**
     * Runs for this time and until there were enough reads; with {@code untilWrong} until the first
     * error.
     */
    final void run(Duration time, boolean untilWrong) throws Exception {
        begin();
        long end_ns = System.nanoTime() + time.toNanos();
        while (untilWrong ? !isPast(end_ns) && found() == 0 : !isEnough(end_ns)) {
            // paced: faults come at random times from the seed, and clients work between them.
            Thread.sleep(50 + random.nextInt(400));
            if (!faults.isEmpty()) {
                F fault = next();
                done.get(fault).increment();
                disturb(fault);
            }
        }
        over = true;
        for (Thread thread : threads) {
            thread.join();
        }
        Throwable problem = broken;
        if (problem != null) {
            throw new AssertionError("a thread of the check failed", problem);
        }
    }

    /** Returns a random fault; if the check needs each, the one that was injected least often. */
    private F next() {
        F any = faults.get(random.nextInt(faults.size()));
        if (!needsEach()) {
            return any;
        }
        long least = faults.stream().mapToLong(fault -> done.get(fault).sum()).min().orElse(0);
        return faults.stream()
                .filter(fault -> done.get(fault).sum() == least)
                .findFirst()
                .orElse(any);
    }

    /** Whether it continues until each fault was injected once. */
    boolean needsEach() {
        return false;
    }

    /** Whether each fault was injected once. */
    final boolean hadEach() {
        return faults.stream().allMatch(fault -> done.get(fault).sum() > 0);
    }

    private static boolean isPast(long moment_ns) {
        return System.nanoTime() - moment_ns >= 0;
    }

    /** Whether the time has passed and there were enough reads, or much more time has passed. */
    private boolean isEnough(long end_ns) {
        boolean shown = judged() > READS_MIN && (hadEach() || !needsEach());
        return isPast(end_ns) && (shown || isPast(end_ns + PATIENCE.toNanos()));
    }

    /** Whether the threads must end. */
    final boolean isOver() {
        return over;
    }

    /** Counts a request without an answer. */
    final void failed() {
        failures.increment();
    }

    /** Checks a read with {@link History#judge}. */
    final void judge(History history, int found, long begin_ns, Duration bound, long lost_ns) {
        reads.increment();
        History.Wrong kind = history.judge(found, begin_ns, bound.toNanos(), lost_ns);
        if (kind != null) {
            wrong.get(kind).increment();
        }
        worst_ns.accumulateAndGet(history.staleness_ns(found, begin_ns), Math::max);
    }

    /** Returns the number of wrong reads. */
    final long found() {
        return wrong.values().stream().mapToLong(LongAdder::sum).sum();
    }

    /** Returns the number of checked reads. */
    final long judged() {
        return reads.sum();
    }

    @Override
    public abstract void close() throws IOException;

    @Override
    public String toString() {
        return reads
                + " reads, wrong "
                + wrong
                + ", oldest "
                + worst_ns.get() / 1_000_000
                + " ms, "
                + failures
                + " failed requests, faults "
                + done;
    }
}
