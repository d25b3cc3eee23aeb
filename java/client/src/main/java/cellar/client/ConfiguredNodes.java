package cellar.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Reads nodes from {@code config get cluster}: a version, then {@code host|address|port} for each.
 *
 * <p>Source: ElastiCache's "Adding auto discovery to your client library".
 */
final class ConfiguredNodes {
    private static final int TIMEOUT_MS = 3000;
    private static final int LINE_CHARS_MAX = 1 << 16;

    private ConfiguredNodes() {}

    /** Returns the nodes that {@code endpoint} reports. */
    static List<Node> ask(Node endpoint) throws IOException {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(endpoint.host(), endpoint.port()), TIMEOUT_MS);
            socket.setSoTimeout(TIMEOUT_MS);
            socket.getOutputStream()
                    .write("config get cluster\r\n".getBytes(StandardCharsets.US_ASCII));
            return parse(
                    new BufferedReader(
                            new InputStreamReader(
                                    socket.getInputStream(), StandardCharsets.US_ASCII)));
        }
    }

    private static List<Node> parse(BufferedReader answer) throws IOException {
        String first = line(answer);
        if (!first.startsWith("CONFIG cluster ")) {
            throw new CacheException.Refused("config get cluster: " + first);
        }
        Long.parseLong(line(answer).strip());
        List<Node> nodes = new ArrayList<>();
        for (String entry : line(answer).strip().split("\\s+")) {
            String[] parts = entry.split("\\|");
            if (parts.length != 3) {
                throw new CacheException.Protocol("not a node: " + entry);
            }
            String host = parts[0].isEmpty() ? parts[1] : parts[0];
            nodes.add(Node.of(host, Integer.parseInt(parts[2])));
        }
        return nodes;
    }

    private static String line(BufferedReader answer) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = answer.read();
                c != '\n' && line.length() < LINE_CHARS_MAX;
                c = answer.read()) {
            if (c < 0) {
                throw new IOException("the answer ended early");
            }
            line.append((char) c);
        }
        return line.toString().strip();
    }
}
