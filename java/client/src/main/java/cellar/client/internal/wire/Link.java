package cellar.client.internal.wire;

/**
 * One connection as requests know it: equal to no other, also none that takes its place.
 *
 * <p>A version means something only on the connection that told it. memcached counts versions from
 * 1 in every process, so after a restart, at another home of a key or at another address of a name,
 * another value may have the same version. A connection ends with its process. This takes for
 * granted that it leads to one process: a proxy that answers for several, or keeps connections open
 * while a process behind it is exchanged, hides the difference.
 */
public final class Link {}
