package cellar.clients;

import net.rubyeye.xmemcached.CommandFactory;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;

/** xmemcached over the binary protocol: the same tests. */
class XmemcachedBinaryTest extends XmemcachedTest {
    @Override
    CommandFactory commands() {
        return new BinaryCommandFactory();
    }
}
