package cellar.client.internal.wire;

/**
 * The identity of a connection; different from that of every other one, including its replacement.
 *
 * <p>A version is only valid on the connection that delivered it. memcached counts versions from 1
 * in every process. So after a restart, at another home of a key or at another address of a name,
 * another value may have the same version. A connection ends with its process. This assumes that a
 * connection leads to one process: a proxy hides the difference if it connects to several
 * processes, or keeps connections open while a process is replaced.
 */
public final class Link {}
