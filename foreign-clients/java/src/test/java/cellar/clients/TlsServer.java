package cellar.clients;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * A way to connect over TLS: a row of the table that foreign-clients/encrypted.py writes beside its
 * certificates.
 */
final class TlsServer {
    static final String HOST = "localhost";
    static final List<String> VERSIONS = List.of("TLSv1.2", "TLSv1.3");
    static final List<Integer> SIZES = List.of(1, 2, 1000, 16383, 16384, 16385, 100_000, 1 << 20);
    static final String CHANGING = "changing";
    static final String MUTUAL = "mutual";
    static final String PASSWORDS = "passwords";
    private static final char[] SECRET = "secret".toCharArray();
    private static final Path FOLDER = Path.of(System.getenv("TLS_FOLDER"));

    private final Map<String, String> row = new HashMap<>();

    private TlsServer(String[] names, String line) {
        String[] fields = line.split("\t");
        for (int i = 0; i < names.length; i++) {
            row.put(names[i], fields[i].equals("-") ? null : fields[i]);
        }
    }

    static Stream<TlsServer> all() throws IOException {
        List<String> lines = Files.readAllLines(FOLDER.resolve("connections.tsv"));
        String[] names = lines.get(0).split("\t");
        return lines.stream().skip(1).map(line -> new TlsServer(names, line));
    }

    static TlsServer named(String name) throws IOException {
        return all().filter(one -> one.toString().equals(name)).findAny().orElseThrow();
    }

    static Path file(String name) {
        return FOLDER.resolve(name);
    }

    @Override
    public String toString() {
        return row.get("name");
    }

    int port() {
        return Integer.parseInt(row.get("resp"));
    }

    String user() {
        return row.get("user");
    }

    String password() {
        return row.get("password");
    }

    /** The name of the client's certificate, or null if none is asked for. */
    String certificate() {
        return row.get("certificate");
    }

    /** What a client knows that trusts this authority and shows its certificate, if it has one. */
    static SSLContext trust(String authority, String certificate)
            throws IOException, GeneralSecurityException {
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        try (InputStream pem = Files.newInputStream(file(authority + ".pem"))) {
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            trusted.setCertificateEntry(authority, factory.generateCertificate(pem));
        }
        TrustManagerFactory trust =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyManagerFactory keys =
                KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        KeyStore own = KeyStore.getInstance("PKCS12");
        own.load(null, null);
        if (certificate != null) {
            try (InputStream store = Files.newInputStream(file(certificate + ".p12"))) {
                own.load(store, SECRET);
            }
        }
        keys.init(own, SECRET);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    /** A figure of the server, read over plain HTTP. */
    long figure(String name) throws IOException, InterruptedException {
        URI address = URI.create("http://127.0.0.1:" + row.get("figures") + "/metrics");
        HttpRequest.Builder request = HttpRequest.newBuilder(address);
        if (row.get("token") != null) {
            request.header("Authorization", "Bearer " + row.get("token"));
        }
        HttpClient client = HttpClient.newHttpClient();
        String text =
                client.send(request.build(), HttpResponse.BodyHandlers.ofString()).body();
        Matcher line = Pattern.compile("^" + name + " (\\d+)$", Pattern.MULTILINE).matcher(text);
        assertTrue(line.find(), text);
        return Long.parseLong(line.group(1));
    }

    /** Waits until the server shows another certificate than it does now. */
    void waitForAnotherCertificate() throws Exception {
        X509Certificate first = shown();
        Await.until("another certificate", () -> !shown().equals(first));
    }

    private X509Certificate shown() throws IOException, GeneralSecurityException {
        SSLContext context = trust("ca", certificate());
        try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(HOST, port())) {
            return (X509Certificate) socket.getSession().getPeerCertificates()[0];
        }
    }

    static byte[] value(int bytes) {
        byte[] value = new byte[bytes];
        Arrays.fill(value, (byte) bytes);
        return value;
    }
}
