package cellar.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.util.Version;
import org.junit.jupiter.api.Test;

/** The Netty version of this test run; the build runs some tests with a second version. */
class NettyTest {
    @Test
    void theNettyIsTheExpectedOne() {
        String found = Version.identify().get("netty-common").artifactVersion();
        assertTrue(found.startsWith(System.getProperty("expected.netty", "4.2.")), found);
    }
}
