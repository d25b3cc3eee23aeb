package cellar.clients;

import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;

/** What the tests ask of a client library, so that each library runs the same tests. */
interface TextClient {
    /** Stores whatever was there before. */
    boolean set(String key, Object value, Duration ttl) throws Exception;

    /** Stores only if nothing is there. */
    boolean add(String key, Object value) throws Exception;

    /** Stores only if something is there. */
    boolean replace(String key, Object value) throws Exception;

    /** Extends a text at its end. */
    boolean append(String key, String text) throws Exception;

    /** Extends a text at its front. */
    boolean prepend(String key, String text) throws Exception;

    /** Reads one value. */
    Optional<Object> get(String key) throws Exception;

    /** Reads many values in one request; misses are left out. */
    Map<String, Object> getMany(Collection<String> keys) throws Exception;

    /** Reads the version that a conditional store needs. */
    long version(String key) throws Exception;

    /** Stores only if the item still has this version. */
    boolean setIfVersion(String key, Object value, long version) throws Exception;

    /** Adds to a number; the new number. */
    long increment(String key, long delta) throws Exception;

    /** Subtracts from a number; the new number. */
    long decrement(String key, long delta) throws Exception;

    /** Gives an item a new time to live. */
    boolean touch(String key, Duration ttl) throws Exception;

    /** Removes an item. */
    boolean delete(String key) throws Exception;

    /** Empties the cache. */
    void flush() throws Exception;

    /** Disconnects. */
    void close() throws Exception;
}
