package cellar.client.testing;

import cellar.client.Node;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Cellar servers that form a cluster by a list in a file. */
public final class ClusterNodes implements AutoCloseable {
    private static final int SLOTS = 16384;

    private final Path folder = Files.createTempDirectory("cellar-cluster");
    private final List<Integer> ports = new ArrayList<>();
    private final List<Server> servers = new ArrayList<>();
    private final Set<Integer> listed = new HashSet<>();

    /** Starts {@code count} nodes, of which the first {@code listed} form the cluster. */
    public ClusterNodes(int count, int listed) throws Exception {
        for (int i = 0; i < count; i++) {
            ports.add(Server.freePort());
            if (i < listed) {
                this.listed.add(i);
            }
        }
        write();
        for (int i = 0; i < count; i++) {
            servers.add(start(i));
        }
        settle();
    }

    private Server start(int node) throws Exception {
        String source = "file:" + folder.resolve("nodes");
        String resp = "127.0.0.1:" + ports.get(node);
        return Server.cellar("127.0.0.1:0", resp, "--cluster", source, "--node", name(node));
    }

    private static String name(int node) {
        return "n" + node;
    }

    private void write() throws IOException {
        StringBuilder list = new StringBuilder();
        for (int node : listed) {
            list.append(name(node)).append(" resp=127.0.0.1:").append(ports.get(node)).append('\n');
        }
        Path fresh = folder.resolve("fresh");
        Files.writeString(fresh, list);
        Files.move(
                fresh,
                folder.resolve("nodes"),
                StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
    }

    /** Lists a node or removes it, and waits until all nodes follow. */
    public void list(int node, boolean isListed) throws Exception {
        if (isListed) {
            listed.add(node);
        } else {
            listed.remove(node);
        }
        write();
        settle();
    }

    /** Whether a node is listed. */
    public boolean isListed(int node) {
        return listed.contains(node);
    }

    /** Kills a node, removes it from the list, restarts it and lists it. */
    public void kill(int node) throws Exception {
        servers.get(node).kill();
        list(node, false);
        servers.set(node, start(node));
        list(node, true);
    }

    /** Returns the process of a node. */
    public Server server(int node) {
        return servers.get(node);
    }

    /** Returns the address of a node for clients. */
    public Node node(int node) {
        return Node.of("127.0.0.1", ports.get(node));
    }

    /** Returns the node that owns a key. */
    public int owner(String key) throws IOException {
        for (int node = 0; node < servers.size(); node++) {
            try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), ports.get(node))) {
                socket.setSoTimeout(5000);
                byte[] question = ("EXISTS " + key + "\r\n").getBytes(StandardCharsets.US_ASCII);
                socket.getOutputStream().write(question);
                if (socket.getInputStream().read() == ':') {
                    return node;
                }
            }
        }
        throw new IllegalStateException("no node has " + key);
    }

    /** Waits until each node of the list owns slots, together all, and no other node owns any. */
    private void settle() throws Exception {
        Await.until("the listed nodes serve all slots", this::isSettled);
    }

    private boolean isSettled() {
        int all = 0;
        for (int i = 0; i < servers.size(); i++) {
            int served = served(i);
            if (listed.contains(i) == (served == 0)) {
                return false;
            }
            all += served;
        }
        return all == SLOTS;
    }

    /** Returns how many slots a node owns; 0 for a dead one. */
    private int served(int node) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), ports.get(node))) {
            socket.setSoTimeout(5000);
            byte[] question = "CLUSTER INFO\r\n".getBytes(StandardCharsets.US_ASCII);
            socket.getOutputStream().write(question);
            BufferedReader answer =
                    new BufferedReader(
                            new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            String field = "cluster_slots_served:";
            for (String line = answer.readLine(); line != null; line = answer.readLine()) {
                if (line.startsWith(field)) {
                    return Integer.parseInt(line.substring(field.length()));
                }
            }
            return 0;
        } catch (IOException e) {
            return 0;
        }
    }

    @Override
    public void close() throws IOException {
        servers.forEach(Server::close);
        Files.deleteIfExists(folder.resolve("nodes"));
        Files.deleteIfExists(folder);
    }
}
