/** Cellar's client: pipelined, clustered, with a local cache that the server invalidates. */
@org.jspecify.annotations.NullMarked
module cellar.client {
    requires static transitive org.jspecify;
    requires static com.fasterxml.jackson.databind;
    requires static java.naming;
    requires com.github.benmanes.caffeine;
    requires io.netty.buffer;
    requires io.netty.common;
    requires io.netty.handler;
    requires io.netty.transport;
    requires io.netty.transport.unix.common;
    requires io.netty.transport.classes.epoll;
    requires static io.netty.transport.classes.io_uring;
    requires java.xml;
    requires org.slf4j;

    exports cellar.client;
    exports cellar.client.config;
}
