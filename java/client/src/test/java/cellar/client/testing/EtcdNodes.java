package cellar.client.testing;

import cellar.client.Node;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Cellar servers that form a cluster by their registrations in etcd. Each is behind a cable, whose
 * address it announces. The last of the first three also reaches etcd through a cable.
 */
public final class EtcdNodes implements AutoCloseable {
    /** How long a silent node keeps its slots. */
    private static final String LEASE = "4s";

    private static final int CUT_OFF = 2;
    private static final int SLOTS = 16384;
    private static final int STARTS_MAX = 5;

    private final Path folder = Files.createTempDirectory("cellar-etcd");
    private final Process etcd;
    private final int etcdPort;
    private final Cable toEtcd;
    private final List<Integer> ports = new ArrayList<>();
    private final List<Cable> cables = new ArrayList<>();
    private final List<@Nullable Server> servers = new ArrayList<>();

    /** Starts the first three of {@code count} nodes; each connection of a client has a filter. */
    public EtcdNodes(int count, Supplier<Cable.Filter> filters) throws Exception {
        Started started = startEtcd();
        etcd = started.process();
        etcdPort = started.port();
        toEtcd = new Cable(etcdPort);
        for (int i = 0; i < count; i++) {
            ports.add(Server.freePort());
            cables.add(new Cable(ports.get(i), filters));
            servers.add(null);
        }
        for (int i = 0; i < 3; i++) {
            start(i);
        }
        settle(0, 1, 2);
    }

    /** Whether etcd is installed; .ci/install installs it. */
    public static boolean isInstalled() {
        try {
            return new ProcessBuilder("etcd", "--version")
                            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                            .start()
                            .waitFor()
                    == 0;
        } catch (IOException e) {
            return false;
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private record Started(Process process, int port) {}

    /** Starts etcd, which cannot report the ports it has bound; if one is in use, tries others. */
    private Started startEtcd() throws Exception {
        for (int attempt = 1; ; attempt++) {
            int port = Server.freePort();
            Process process = startEtcd(port, folder.resolve("data-" + attempt));
            String client = "http://127.0.0.1:" + port;
            try {
                Await.until("etcd is healthy", () -> isHealthy(client) || !process.isAlive());
            } catch (AssertionError e) {
                process.destroyForcibly();
                throw e;
            }
            if (process.isAlive()) {
                return new Started(process, port);
            }
            if (attempt == STARTS_MAX) {
                String log = Files.readString(folder.resolve("log"));
                throw new IllegalStateException("etcd does not start:\n" + log);
            }
        }
    }

    private Process startEtcd(int port, Path data) throws IOException {
        String client = "http://127.0.0.1:" + port;
        String peer = "http://127.0.0.1:" + Server.freePort();
        List<String> command = new ArrayList<>();
        command.addAll(List.of("etcd", "--data-dir", data.toString()));
        command.addAll(List.of("--listen-client-urls", client, "--advertise-client-urls", client));
        command.addAll(List.of("--listen-peer-urls", peer));
        command.addAll(List.of("--initial-advertise-peer-urls", peer));
        command.addAll(List.of("--initial-cluster", "default=" + peer));
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("log").toFile())
                .start();
    }

    private static boolean isHealthy(String client) {
        try {
            URI health = URI.create(client + "/health");
            HttpURLConnection connection = (HttpURLConnection) health.toURL().openConnection();
            return connection.getResponseCode() == 200;
        } catch (IOException e) {
            return false;
        }
    }

    /** Starts a node that is not running. */
    public void start(int node) throws Exception {
        String source = "etcd:http://127.0.0.1:" + (node == CUT_OFF ? toEtcd.port() : etcdPort);
        String[] flags = {
            "--cluster",
            source + "/test",
            "--node",
            "n" + node,
            "--cluster-lease",
            LEASE,
            "--announce-resp",
            "127.0.0.1:" + cables.get(node).port()
        };
        servers.set(node, Server.cellar("127.0.0.1:0", "127.0.0.1:" + ports.get(node), flags));
    }

    /** Ends a node, which gives back its slots. */
    public void end(int node) {
        server(node).close();
        servers.set(node, null);
    }

    /** Kills a node. */
    public void kill(int node) throws Exception {
        server(node).kill();
        servers.set(node, null);
    }

    /** Whether a node is running. */
    public boolean runs(int node) {
        return servers.get(node) != null;
    }

    /** Returns the process of a running node. */
    public Server server(int node) {
        Server server = servers.get(node);
        if (server == null) {
            throw new IllegalStateException("node " + node + " does not run");
        }
        return server;
    }

    /** Returns the running nodes. */
    public int[] running() {
        return java.util.stream.IntStream.range(0, servers.size()).filter(this::runs).toArray();
    }

    /** Cuts the third node off from etcd, but not from its clients, or connects it again. */
    public void cutOff(boolean isCutOff) {
        toEtcd.become(isCutOff ? Cable.State.HELD : Cable.State.WHOLE);
    }

    /** Returns the cables between clients and nodes. */
    public List<Cable> cables() {
        return cables;
    }

    /** Returns the address of a node for clients. */
    public Node node(int node) {
        return Node.of("127.0.0.1", cables.get(node).port());
    }

    /** Returns the port on which the node listens that announces this port. */
    public int behind(int announced) {
        for (int i = 0; i < cables.size(); i++) {
            if (cables.get(i).port() == announced) {
                return ports.get(i);
            }
        }
        throw new IllegalStateException("no node announces port " + announced);
    }

    /** Waits until each of these nodes owns slots, and together all. */
    public void settle(int... nodes) throws Exception {
        Await.until("these nodes serve all slots", () -> isSettled(nodes));
    }

    private boolean isSettled(int... nodes) {
        int all = 0;
        for (int node : nodes) {
            int served = served(node);
            if (served == 0) {
                return false;
            }
            all += served;
        }
        return all == SLOTS;
    }

    /** Returns how many slots a node owns while its lease is valid. */
    private int served(int node) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), ports.get(node))) {
            socket.setSoTimeout(5000);
            byte[] question = "CLUSTER INFO\r\n".getBytes(StandardCharsets.US_ASCII);
            socket.getOutputStream().write(question);
            BufferedReader answer =
                    new BufferedReader(
                            new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            String field = "cluster_slots_served:";
            boolean isLeased = false;
            for (String line = answer.readLine(); line != null; line = answer.readLine()) {
                isLeased |= line.equals("cluster_state:ok");
                if (line.startsWith(field)) {
                    return isLeased ? Integer.parseInt(line.substring(field.length())) : 0;
                }
            }
            return 0;
        } catch (IOException e) {
            return 0;
        }
    }

    @Override
    public void close() throws IOException {
        for (Server server : servers) {
            if (server != null) {
                server.close();
            }
        }
        cables.forEach(Cable::close);
        toEtcd.close();
        etcd.destroyForcibly();
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        }
    }
}
