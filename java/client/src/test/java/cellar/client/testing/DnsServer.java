package cellar.client.testing;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** Answers every question with the SRV records of one name. */
public final class DnsServer implements AutoCloseable {
    /** A record. */
    public record Service(int weight, int port, String host) {}

    private final DatagramSocket socket = new DatagramSocket(0, InetAddress.getLoopbackAddress());
    private final String name;
    private final List<Service> services;

    /** Starts the server. */
    public DnsServer(String name, List<Service> services) throws IOException {
        this.name = name;
        this.services = services;
        Thread thread = new Thread(this::serve, "dns-server");
        thread.setDaemon(true);
        thread.start();
    }

    /** Returns its port. */
    public int port() {
        return socket.getLocalPort();
    }

    private void serve() {
        try {
            while (true) {
                DatagramPacket question = new DatagramPacket(new byte[512], 512);
                socket.receive(question);
                byte[] answer = answer(Arrays.copyOf(question.getData(), question.getLength()));
                socket.send(new DatagramPacket(answer, answer.length, question.getSocketAddress()));
            }
        } catch (IOException e) {
            // The socket was closed, so the server ends.
            return;
        }
    }

    private byte[] answer(byte[] question) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.write(question, 0, 2);
        out.writeShort(0x8580);
        out.writeShort(1);
        out.writeShort(services.size());
        out.writeShort(0);
        out.writeShort(0);
        int end = 12;
        while (question[end] != 0) {
            end += question[end] + 1;
        }
        out.write(question, 12, end + 5 - 12);
        for (Service service : services) {
            out.write(labels(name));
            out.writeShort(33);
            out.writeShort(1);
            out.writeInt(60);
            byte[] host = labels(service.host());
            out.writeShort(6 + host.length);
            out.writeShort(1);
            out.writeShort(service.weight());
            out.writeShort(service.port());
            out.write(host);
        }
        return bytes.toByteArray();
    }

    private static byte[] labels(String name) {
        ByteArrayOutputStream labels = new ByteArrayOutputStream();
        for (String label : name.split("\\.")) {
            labels.write(label.length());
            labels.writeBytes(label.getBytes(StandardCharsets.US_ASCII));
        }
        labels.write(0);
        return labels.toByteArray();
    }

    @Override
    public void close() {
        socket.close();
    }
}
