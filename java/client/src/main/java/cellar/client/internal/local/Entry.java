package cellar.client.internal.local;

import cellar.client.internal.wire.Link;
import org.jspecify.annotations.Nullable;

/**
 * A local copy.
 *
 * @param form what made the value of the bytes; only those who read in the same form may have it
 * @param value null for the knowledge that there is no item
 * @param version of the item, 0 if not known
 * @param link the connection that told the version; null if none can confirm it
 * @param seen_ns when the server last said so
 * @param ends_ns when the item expires; {@link #FOREVER} if it does not
 * @param weight_bytes what the copy counts for
 * @param ticket proof that changes are told of; null if they are not
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
