package cellar.client.internal.local;

import cellar.client.internal.wire.Link;
import org.jspecify.annotations.Nullable;

/**
 * A local copy.
 *
 * @param form the function that decoded the value; only reads with the same form may use it
 * @param value null if the server has no item
 * @param version of the item, 0 if unknown
 * @param link the connection that delivered the version; null if none can confirm it
 * @param seen_ns when the server last sent or confirmed it
 * @param ends_ns when the item expires; {@link #FOREVER} if it does not
 * @param weight_bytes its share of the limit in bytes
 * @param ticket shows that the key is tracked; null if it is not
 */
record Entry(
        Object form,
        @Nullable Object value,
        long version,
        @Nullable Link link,
        long seen_ns,
        long ends_ns,
        int weight_bytes,
        Tracking.@Nullable Ticket ticket) {
    static final long FOREVER = Long.MAX_VALUE;

    Entry confirmed(long now_ns) {
        return new Entry(form, value, version, link, now_ns, ends_ns, weight_bytes, ticket);
    }

    boolean isLive(long now_ns) {
        return ends_ns == FOREVER || ends_ns - now_ns > 0;
    }
}
