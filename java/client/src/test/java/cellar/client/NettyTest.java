package cellar.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.util.Version;
import org.junit.jupiter.api.Test;

/** Which Netty the tests of this run have: the build runs some of them with another one again. */
class NettyTest {
    @Test
    void theNettyIsTheExpectedOne() {
        String found = Version.identify().get("netty-common").artifactVersion();
        assertTrue(found.startsWith(System.getProperty("expected.netty", "4.2.")), found);
    }
}
