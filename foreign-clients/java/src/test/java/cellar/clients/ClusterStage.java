package cellar.clients;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.List;
import java.util.stream.Stream;

/** The nodes of a cluster, and the scenes that they play; cluster_clients.py says which there are. */
final class ClusterStage {
    private ClusterStage() {}

    /** Where the nodes listen, by the name of a variable. */
    static List<InetSocketAddress> nodes(String variable) {
        return Stream.of(System.getenv(variable).split(",")).map(ClusterStage::address).toList();
    }

    /** Has a scene happen. */
    static void play(String scene) throws IOException {
        InetSocketAddress stage = address(System.getenv("CLUSTER_STAGE"));
        try (Socket socket = new Socket(stage.getHostString(), stage.getPort())) {
            socket.getOutputStream().write((scene + "\n").getBytes(US_ASCII));
            InputStreamReader answer = new InputStreamReader(socket.getInputStream(), US_ASCII);
            assertEquals("done", new BufferedReader(answer).readLine());
        }
    }

    private static InetSocketAddress address(String text) {
        String[] parts = text.split(":");
        return new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
    }
}
