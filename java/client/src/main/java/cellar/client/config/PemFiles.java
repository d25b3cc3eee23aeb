package cellar.client.config;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import org.jspecify.annotations.Nullable;

/** Reads trusted authorities and the client's certificate from PEM files. */
final class PemFiles {
    private static final Pattern KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([^-]+)-----END PRIVATE KEY-----");

    private PemFiles() {}

    /**
     * Creates a context. Without {@code authorities} it trusts the JVM's default ones. Without
     * {@code certificate} and {@code key} it presents no certificate.
     *
     * @throws IllegalArgumentException if a file is missing or has other content
     */
    static SSLContext context(
            @Nullable String authorities, @Nullable String certificate, @Nullable String key) {
        if ((certificate == null) != (key == null)) {
            throw new IllegalArgumentException("tls-certificate and tls-key go together");
        }
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(
                    certificate == null || key == null ? null : keys(certificate, key),
                    authorities == null ? null : trust(authorities),
                    null);
            return context;
        } catch (GeneralSecurityException | IOException e) {
            throw new IllegalArgumentException("TLS cannot use these files: " + e, e);
        }
    }

    private static TrustManager[] trust(String file) throws GeneralSecurityException, IOException {
        KeyStore store = store();
        for (Certificate certificate : certificates(file)) {
            store.setCertificateEntry("authority" + store.size(), certificate);
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
        factory.init(store);
        return factory.getTrustManagers();
    }

    private static KeyManager[] keys(String certificate, String key)
            throws GeneralSecurityException, IOException {
        Certificate[] chain = certificates(certificate).toArray(new Certificate[0]);
        Matcher text = KEY.matcher(Files.readString(Path.of(key)));
        if (!text.find()) {
            throw new InvalidKeySpecException(key + " has no BEGIN PRIVATE KEY (PKCS #8)");
        }
        byte[] bytes = Base64.getMimeDecoder().decode(text.group(1));
        String algorithm = chain[0].getPublicKey().getAlgorithm();
        PrivateKey secret =
                KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(bytes));
        KeyStore store = store();
        store.setKeyEntry("client", secret, new char[0], chain);
        KeyManagerFactory factory =
                KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store, new char[0]);
        return factory.getKeyManagers();
    }

    private static KeyStore store() throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static Collection<? extends Certificate> certificates(String file)
            throws CertificateException, IOException {
        try (InputStream in = Files.newInputStream(Path.of(file))) {
            Collection<? extends Certificate> all =
                    CertificateFactory.getInstance("X.509").generateCertificates(in);
            if (all.isEmpty()) {
                throw new CertificateException(file + " has no certificate");
            }
            return all;
        }
    }
}
