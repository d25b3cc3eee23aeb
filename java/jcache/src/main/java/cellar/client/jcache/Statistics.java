package cellar.client.jcache;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import javax.cache.management.CacheStatisticsMXBean;
import org.jspecify.annotations.NullMarked;

/**
 * The statistics of one cache object of this process; other processes are not counted.
 *
 * <p>Evictions are not counted, because servers do not report which application's items they evict.
 */
@NullMarked
final class Statistics implements CacheStatisticsMXBean {
    private static final float PERCENT = 100;

    /** A number of operations and their total time. */
    private static final class Timed {
        final LongAdder count = new LongAdder();
        final LongAdder time_ns = new LongAdder();

        float average_us() {
            long times = count.sum();
            return times == 0 ? 0 : time_ns.sum() / (float) TimeUnit.MICROSECONDS.toNanos(times);
        }

        void reset() {
            count.reset();
            time_ns.reset();
        }
    }

    private final LongAdder hits = new LongAdder();
    private final Timed gets = new Timed();
    private final Timed puts = new Timed();
    private final Timed removals = new Timed();
    private volatile boolean on;

    void turn(boolean wanted) {
        on = wanted;
    }

    /** Returns the current time, for the other methods. */
    long begin() {
        return on ? System.nanoTime() : 0;
    }

    /**
     * Counts reads of {@code asked} keys since {@code begin_ns}, of which {@code found} existed.
     */
    void read(long asked, long found, long begin_ns) {
        if (on) {
            gets.count.add(asked);
            gets.time_ns.add(since(begin_ns));
            hits.add(found);
        }
    }

    /** Counts stored values. */
    void stored(long count, long begin_ns) {
        if (on) {
            puts.count.add(count);
            puts.time_ns.add(since(begin_ns));
        }
    }

    /** Counts removed items. */
    void removed(long count, long begin_ns) {
        if (on) {
            removals.count.add(count);
            removals.time_ns.add(since(begin_ns));
        }
    }

    /** Operations that began before statistics were enabled have no time. */
    private static long since(long begin_ns) {
        return begin_ns == 0 ? 0 : System.nanoTime() - begin_ns;
    }

    @Override
    public void clear() {
        hits.reset();
        gets.reset();
        puts.reset();
        removals.reset();
    }

    @Override
    public long getCacheHits() {
        return hits.sum();
    }

    @Override
    public float getCacheHitPercentage() {
        return percentage(getCacheHits());
    }

    @Override
    public long getCacheMisses() {
        return Math.max(0, getCacheGets() - getCacheHits());
    }

    @Override
    public float getCacheMissPercentage() {
        return percentage(getCacheMisses());
    }

    private float percentage(long part) {
        long all = getCacheGets();
        return all == 0 ? 0 : PERCENT * part / all;
    }

    @Override
    public long getCacheGets() {
        return gets.count.sum();
    }

    @Override
    public long getCachePuts() {
        return puts.count.sum();
    }

    @Override
    public long getCacheRemovals() {
        return removals.count.sum();
    }

    @Override
    public long getCacheEvictions() {
        return 0;
    }

    @Override
    public float getAverageGetTime() {
        return gets.average_us();
    }

    @Override
    public float getAveragePutTime() {
        return puts.average_us();
    }

    @Override
    public float getAverageRemoveTime() {
        return removals.average_us();
    }
}
