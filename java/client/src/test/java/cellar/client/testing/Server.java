package cellar.client.testing;

import cellar.client.Node;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.IntFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A server process on a free port of the loopback interface. */
public final class Server implements AutoCloseable {
    /** The kinds of servers. */
    public enum Kind {
        /** Debian's memcached. */
        MEMCACHED,
        /** The server of this repository. */
        CELLAR
    }

    private static final Pattern READY =
            Pattern.compile("cellar ready .*memcached=\\S+:(\\d+) .*resp=\\S+:(\\d+).*");

    /** Enough memory for any test or benchmark, including 100,000 objects. */
    private static final String MEMORY_MIB = "512";

    private static final int STARTS_MAX = 5;
    private static final long READY_S_MAX = 60;

    /** Sockets that reserve the ports given out. */
    private static final List<SocketChannel> HOLDERS = new CopyOnWriteArrayList<>();

    private final Process process;
    private final int port;
    private final int respPort;

    private Server(Process process, int port, int respPort) {
        this.process = process;
        this.port = port;
        this.respPort = respPort;
    }

    /** Starts a server of this kind. */
    public static Server start(Kind kind) throws Exception {
        return kind == Kind.CELLAR ? cellar(0, 0) : memcached(0);
    }

    /**
     * Starts Cellar on ports that this process reserves, so that it can restart on them after a
     * kill. Another process could take a port that a server has chosen itself.
     */
    public static Server restartable() throws Exception {
        return cellar(freePort(), freePort());
    }

    /** Starts Cellar; port 0 means any free port. */
    public static Server cellar(int port, int respPort) throws Exception {
        return cellar("127.0.0.1:" + port, "127.0.0.1:" + respPort);
    }

    /**
     * Starts Cellar at these addresses with further flags; {@link #port} and {@link #respPort} are
     * the last of them.
     */
    public static Server cellar(String memcached, String resp, String... more) throws Exception {
        List<String> command = new ArrayList<>();
        command.addAll(List.of(binary(), "--memcached", memcached, "--resp", resp));
        command.addAll(List.of("--http", "off", "--memory", MEMORY_MIB + "MiB"));
        command.addAll(List.of(more));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        BufferedReader output =
                new BufferedReader(
                        new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        CompletableFuture<Matcher> ready = new CompletableFuture<>();
        Thread reader = new Thread(() -> read(output, ready), "cellar-output");
        reader.setDaemon(true);
        reader.start();
        try {
            Matcher line = ready.get(READY_S_MAX, TimeUnit.SECONDS);
            return new Server(
                    process, Integer.parseInt(line.group(1)), Integer.parseInt(line.group(2)));
        } catch (ExecutionException | TimeoutException e) {
            process.destroyForcibly();
            throw e;
        }
    }

    private static void read(BufferedReader output, CompletableFuture<Matcher> ready) {
        StringBuilder seen = new StringBuilder();
        try {
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                Matcher matcher = READY.matcher(line);
                if (matcher.find()) {
                    ready.complete(matcher);
                }
                seen.append(line).append('\n');
            }
        } catch (IOException e) {
            seen.append(e);
        }
        ready.completeExceptionally(new IllegalStateException("no Cellar:\n" + seen));
    }

    /** Returns the hash of a password, created as an operator does. */
    public static String hash(String password) throws Exception {
        Process process = new ProcessBuilder(binary(), "hash-password").start();
        process.getOutputStream().write(password.getBytes(StandardCharsets.UTF_8));
        process.getOutputStream().close();
        byte[] hash = process.getInputStream().readAllBytes();
        return new String(hash, StandardCharsets.UTF_8).strip();
    }

    private static String binary() {
        String named = System.getProperty("cellar.server");
        String target = System.getenv("CARGO_TARGET_DIR");
        String path =
                named != null
                        ? named
                        : (target != null ? target : "../../target") + "/release/cellar";
        if (!new File(path).canExecute()) {
            throw new IllegalStateException(
                    "build Cellar first (make build), or name it by -Dcellar.server: " + path);
        }
        return path;
    }

    /** Starts memcached; port 0 means any free port. */
    public static Server memcached(int port, String... more) throws Exception {
        return listening(
                port,
                false,
                chosen -> {
                    List<String> command = new ArrayList<>(List.of("memcached", "-u", "nobody"));
                    command.addAll(List.of("-l", "127.0.0.1", "-p", "" + chosen, "-U", "0"));
                    command.addAll(List.of("-m", MEMORY_MIB, "-t", "2"));
                    command.addAll(List.of(more));
                    return command;
                });
    }

    /** Starts Debian's redis-server without persistence; port 0 means any free port. */
    public static Server redis(int port, String... more) throws Exception {
        return listening(
                port,
                true,
                chosen -> {
                    List<String> command = new ArrayList<>(List.of("redis-server", "--save", ""));
                    command.addAll(List.of("--bind", "127.0.0.1", "--port", "" + chosen));
                    command.addAll(List.of("--appendonly", "no", "--loglevel", "warning"));
                    command.addAll(List.of(more));
                    return command;
                });
    }

    /**
     * Starts a program that cannot report the port it has bound; if it is in use, tries another
     * one.
     */
    private static Server listening(int port, boolean redis, IntFunction<List<String>> commands)
            throws Exception {
        // Maven reads this process's output, and a server's lines would corrupt it.
        Path log = file("server.log", "");
        for (int attempt = 1; ; attempt++) {
            int chosen = port == 0 ? freePort() : port;
            List<String> command = commands.apply(chosen);
            Process process =
                    new ProcessBuilder(command)
                            .redirectErrorStream(true)
                            .redirectOutput(log.toFile())
                            .start();
            if (answers(process, chosen)) {
                return new Server(process, chosen, redis ? chosen : 0);
            }
            if (attempt == STARTS_MAX) {
                throw new IllegalStateException(command + " ended:\n" + Files.readString(log));
            }
        }
    }

    /** Waits until the process accepts connections; false if it has ended instead. */
    private static boolean answers(Process process, int port) throws Exception {
        try {
            Await.until("port " + port + " is open", () -> isOpen(port) || !process.isAlive());
        } catch (AssertionError e) {
            process.destroyForcibly();
            throw e;
        }
        return process.isAlive();
    }

    private static boolean isOpen(int port) {
        try (Socket probe = new Socket(InetAddress.getLoopbackAddress(), port)) {
            return probe.isConnected();
        } catch (IOException e) {
            return false;
        }
    }

    /**
     * Returns a port for a server to be started.
     *
     * <p>Until this process ends, a socket that does not listen is bound to the port. So the system
     * gives it to no other process, but a server that sets SO_REUSEADDR may bind it too
     * (socket(7)).
     */
    public static int freePort() throws IOException {
        SocketChannel holder = SocketChannel.open(StandardProtocolFamily.INET);
        holder.setOption(StandardSocketOptions.SO_REUSEADDR, true);
        holder.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        HOLDERS.add(holder);
        return holder.socket().getLocalPort();
    }

    /** Creates a file with {@code text} that is deleted at the end. */
    public static Path file(String name, String text) throws IOException {
        Path file = Files.createTempFile("cellar-", name);
        Files.writeString(file, text);
        file.toFile().deleteOnExit();
        return file;
    }

    /** Returns the port of the memcached protocol. */
    public int port() {
        return port;
    }

    /** Returns the port of the Redis protocol; 0 if there is none. */
    public int respPort() {
        return respPort;
    }

    /** Returns its address for clients. */
    public Node node() {
        return Node.of("127.0.0.1", port);
    }

    /** Sends lines on a separate connection and returns the answer up to its last line. */
    public String ask(String request, String lastLine) throws IOException {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(5000);
            socket.getOutputStream().write(request.getBytes(StandardCharsets.UTF_8));
            BufferedReader answer =
                    new BufferedReader(
                            new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            StringBuilder all = new StringBuilder();
            String line;
            do {
                line = answer.readLine();
                all.append(line).append('\n');
            } while (line != null && !line.equals(lastLine));
            return all.toString();
        }
    }

    /** Returns its process ID. */
    public long pid() {
        return process.pid();
    }

    /** Kills it, as a crash does. */
    public void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    /** Stops or continues it; its connections stay open, but nothing is answered. */
    public void signal(String name) throws Exception {
        new ProcessBuilder("kill", "-" + name, "" + process.pid()).start().waitFor();
    }

    @Override
    public void close() {
        if (respPort == 0) {
            // memcached takes a second to end after SIGTERM, and has nothing to lose.
            process.destroyForcibly();
        } else {
            process.destroy();
        }
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
