package cellar.client;

import org.jspecify.annotations.Nullable;

/**
 * Why a request has no answer. A miss is not an exception: it is null or false.
 *
 * <p>Unchecked and sealed: these are all kinds. Immutable.
 */
public abstract sealed class CacheException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private CacheException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /** No answer within the time-out. The server may have executed a write. */
    public static final class Timeout extends CacheException {
        private static final long serialVersionUID = 1L;

        /** {@code message} says what was not answered in time. */
        public Timeout(String message) {
            super(message, null);
        }
    }

    /** The node cannot be reached, or the connection broke before the answer was complete. */
    public static final class Connection extends CacheException {
        private static final long serialVersionUID = 1L;

        /** {@code message} names the node; {@code cause} is the socket's exception, or null. */
        public Connection(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }

    /** A queue is full; the request was not sent. */
    public static final class Overloaded extends CacheException {
        private static final long serialVersionUID = 1L;

        /** {@code message} names the queue and its limit. */
        public Overloaded(String message) {
            super(message, null);
        }
    }

    /** The server rejected the request with an error. */
    public static final class Refused extends CacheException {
        private static final long serialVersionUID = 1L;

        /** {@code message} is the server's error line. */
        public Refused(String message) {
            super(message, null);
        }
    }

    /**
     * The server sent a reply that its protocol does not allow; the client closed the connection.
     */
    public static final class Protocol extends CacheException {
        private static final long serialVersionUID = 1L;

        /** {@code message} says what was received and what was expected. */
        public Protocol(String message) {
            super(message, null);
        }
    }

    /** A value could not be encoded or decoded. */
    public static final class Coding extends CacheException {
        private static final long serialVersionUID = 1L;

        /** {@code cause} is the codec's own exception, or null. */
        public Coding(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }

    /** The loader of {@code getOrLoad} failed, or the caller was interrupted while waiting. */
    public static final class Loading extends CacheException {
        private static final long serialVersionUID = 1L;

        /** {@code cause} is the loader's exception, or an {@link InterruptedException}. */
        public Loading(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }

    /** The client was closed before the request was answered. */
    public static final class Closed extends CacheException {
        private static final long serialVersionUID = 1L;

        /** All have the same message. */
        public Closed() {
            super("the client is closed", null);
        }
    }

    /** The configuration is invalid; the message names the key and the reason. */
    public static final class Configuration extends CacheException {
        private static final long serialVersionUID = 1L;

        /** {@code cause} is the parser's exception, or null. */
        public Configuration(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }
}
