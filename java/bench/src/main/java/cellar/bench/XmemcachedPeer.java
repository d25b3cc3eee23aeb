package cellar.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.stream.Collectors;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.impl.KetamaMemcachedSessionLocator;
import net.rubyeye.xmemcached.utils.AddrUtil;

/** xmemcached. */
final class XmemcachedPeer implements Peer {
    private static final int TTL_S = 3600;

    private final MemcachedClient client;

    XmemcachedPeer(List<Integer> ports, boolean binary) throws Exception {
        String addresses =
                ports.stream().map(port -> "127.0.0.1:" + port).collect(Collectors.joining(" "));
        XMemcachedClientBuilder builder =
                new XMemcachedClientBuilder(AddrUtil.getAddresses(addresses));
        builder.setSessionLocator(new KetamaMemcachedSessionLocator());
        builder.setOpTimeout(10_000);
        if (binary) {
            builder.setCommandFactory(new BinaryCommandFactory());
        }
        client = builder.build();
    }

    @Override
    public Object get(String key) throws Exception {
        return client.get(key);
    }

    @Override
    public void set(String key, Object value) throws Exception {
        client.set(key, TTL_S, value);
    }

    @Override
    public void close() {
        try {
            client.shutdown();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
