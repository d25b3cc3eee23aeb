package cellar.clients;

import net.spy.memcached.ConnectionFactoryBuilder.Protocol;

/** spymemcached over the binary protocol: the same tests. */
class SpymemcachedBinaryTest extends SpymemcachedTest {
    @Override
    Protocol protocol() {
        return Protocol.BINARY;
    }
}
