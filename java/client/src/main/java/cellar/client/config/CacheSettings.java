package cellar.client.config;

import cellar.client.CacheClient;
import cellar.client.CacheClientBuilder;
import cellar.client.CacheException;
import cellar.client.Codec;
import cellar.client.Codecs;
import cellar.client.Discovery;
import cellar.client.JavaClasses;
import cellar.client.LocalCacheOptions;
import cellar.client.Node;
import cellar.client.WhalinOptions;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;

/**
 * The settings of one cache. Immutable.
 *
 * <table>
 * <caption>Keys; durations are {@code 500ms}, {@code 2s}, {@code 5m}, {@code 1h}</caption>
 * <tr><td>nodes</td><td>{@code host:port:weight name} or {@code unix:/path:weight name},
 * separated by commas; {@code in-memory} for {@link CacheClientBuilder#inMemory}</td></tr>
 * <tr><td>discovery</td><td>{@code dns:HOST:PORT}, {@code srv:NAME} or {@code config:HOST:PORT}
 * instead of nodes</td></tr>
 * <tr><td>discovery-period</td><td>duration</td></tr>
 * <tr><td>mode</td><td>sharded, sharded-with-failover, replicated or slots</td></tr>
 * <tr><td>protocol</td><td>memcached or redis</td></tr>
 * <tr><td>codec</td><td>string, bytes, spymemcached, whalin, {@code json:CLASS}, {@code
 * json:List<CLASS>} or, for several classes, {@code json:NAME=CLASS,NAME=CLASS}</td></tr>
 * <tr><td>java-classes</td><td>with codec whalin: classes whose objects are serialised, in the
 * form of {@link cellar.client.JavaClasses}, separated by commas; default: none</td></tr>
 * <tr><td>compress-from-bytes</td><td>with codec whalin: size from which values are compressed
 * </td></tr>
 * <tr><td>timeout, connect-timeout, backoff-min, backoff-max</td><td>durations</td></tr>
 * <tr><td>connections, blocking-connections, threads, in-flight-max, replication-queue-max</td>
 * <td>numbers</td></tr>
 * <tr><td>check-connections</td><td>true to check connections before they send requests</td></tr>
 * <tr><td>nagle</td><td>true if Nagle's algorithm may delay small requests</td></tr>
 * <tr><td>transport</td><td>auto, epoll, io_uring or nio</td></tr>
 * <tr><td>tls</td><td>true for the JVM's default context</td></tr>
 * <tr><td>tls-ca</td><td>PEM file of the authorities trusted instead of its own</td></tr>
 * <tr><td>tls-certificate, tls-key</td><td>PEM files of the client certificate and its key
 * </td></tr>
 * <tr><td>user, password</td><td>credentials, for either protocol</td></tr>
 * <tr><td>local-cache-bytes</td><td>size of the local cache; default: no local cache</td></tr>
 * <tr><td>local-ttl</td><td>maximum age of a copy for calls without a localTtl</td></tr>
 * <tr><td>tracking-port, tracking-password</td><td>port and password of invalidations</td></tr>
 * </table>
 */
public final class CacheSettings {
    private static final Pattern DURATION = Pattern.compile("(\\d+)\\s*(ms|s|m|h)");
    private static final Pattern LIST = Pattern.compile("List<(.+)>");
    private static final Duration DISCOVERY_PERIOD = Duration.ofSeconds(30);

    private interface Key extends BiConsumer<CacheClientBuilder, String> {}

    private static final Map<String, Key> KEYS = keys();

    /** Keys that are read together with others. */
    private static final List<String> JOINED =
            List.of(
                    "codec",
                    "java-classes",
                    "compress-from-bytes",
                    "discovery",
                    "discovery-period",
                    "backoff-min",
                    "backoff-max",
                    "user",
                    "password",
                    "tls-ca",
                    "tls-certificate",
                    "tls-key",
                    "local-cache-bytes",
                    "local-ttl",
                    "tracking-port",
                    "tracking-password");

    private final String name;
    private final Map<String, String> values;

    private CacheSettings(String name, Map<String, String> values) {
        this.name = name;
        this.values = Map.copyOf(values);
    }

    private static Map<String, Key> keys() {
        Map<String, Key> keys = new TreeMap<>();
        keys.put("nodes", CacheSettings::nodes);
        keys.put(
                "mode", (builder, text) -> builder.mode(word(CacheClientBuilder.Mode.class, text)));
        keys.put(
                "protocol",
                (builder, text) -> builder.protocol(word(CacheClientBuilder.Protocol.class, text)));
        keys.put("timeout", (builder, text) -> builder.timeout(duration(text)));
        keys.put("connect-timeout", (builder, text) -> builder.connectTimeout(duration(text)));
        keys.put("connections", (builder, text) -> builder.connections(number(text)));
        keys.put(
                "blocking-connections",
                (builder, text) -> builder.blockingConnections(number(text)));
        keys.put("threads", (builder, text) -> builder.threads(number(text)));
        keys.put("in-flight-max", (builder, text) -> builder.inFlightMax(number(text)));
        keys.put(
                "replication-queue-max",
                (builder, text) -> builder.replicationQueueMax(number(text)));
        keys.put(
                "transport",
                (builder, text) ->
                        builder.transport(word(CacheClientBuilder.Transport.class, text)));
        keys.put("check-connections", (builder, text) -> builder.checkedConnections(truth(text)));
        keys.put("nagle", (builder, text) -> builder.nagle(truth(text)));
        keys.put("tls", CacheSettings::tls);
        return keys;
    }

    /** Whether this is the name of a key. */
    static boolean isKey(String key) {
        return KEYS.containsKey(key) || JOINED.contains(key);
    }

    static CacheSettings of(String name, Map<String, String> values) {
        CacheSettings settings = new CacheSettings(name, values);
        for (String key : values.keySet()) {
            if (!isKey(key)) {
                throw settings.wrong("unknown key " + key, null);
            }
        }
        if (values.containsKey("nodes") == values.containsKey("discovery")) {
            throw new CacheException.Configuration(
                    "cache " + name + ": set either nodes or discovery", null);
        }
        settings.builder();
        settings.codec();
        return settings;
    }

    /** Returns the name. */
    public String name() {
        return name;
    }

    /** Returns the keys with their values, without passwords. */
    public Map<String, String> values() {
        Map<String, String> shown = new LinkedHashMap<>(values);
        shown.keySet().removeIf(key -> key.endsWith("password"));
        return shown;
    }

    /** Returns a builder with these settings, for those that no file can contain. */
    public CacheClientBuilder builder() {
        CacheClientBuilder builder = CacheClient.builder();
        values.forEach(
                (key, text) -> {
                    Key known = KEYS.get(key);
                    if (known != null) {
                        read(key, () -> known.accept(builder, text));
                    }
                });
        read("discovery", () -> discovery(builder));
        read("backoff-min", () -> backoff(builder));
        read("user", () -> credentials(builder));
        read("tls-ca", () -> tls(builder));
        read("local-cache-bytes", () -> localCache(builder));
        return builder;
    }

    private void read(String key, Runnable reader) {
        try {
            reader.run();
        } catch (IllegalArgumentException e) {
            throw wrong(key + ": " + e.getMessage(), e);
        }
    }

    private CacheException wrong(String what, @Nullable Throwable cause) {
        return new CacheException.Configuration("cache " + name + ": " + what, cause);
    }

    /**
     * Returns the codec.
     *
     * @throws CacheException.Configuration if the class of a {@code json:} codec is missing
     */
    @SuppressWarnings("unchecked")
    public Codec<Object> codec() {
        String text = values.getOrDefault("codec", "string");
        for (String key : List.of("java-classes", "compress-from-bytes")) {
            if (values.containsKey(key) && !text.equals("whalin")) {
                throw wrong(key + " is for codec whalin, not " + text, null);
            }
        }
        Codec<?> codec =
                switch (text) {
                    case "string" -> Codecs.string();
                    case "bytes" -> Codecs.bytes();
                    case "spymemcached" -> Codecs.spymemcached();
                    case "whalin" -> Codecs.whalin(whalin());
                    default -> json(text);
                };
        return (Codec<Object>) codec;
    }

    private WhalinOptions whalin() {
        WhalinOptions[] options = {WhalinOptions.plain()};
        String bytes = values.get("compress-from-bytes");
        if (bytes != null) {
            read(
                    "compress-from-bytes",
                    () -> options[0] = options[0].compressedFrom(number(bytes)));
        }
        String classes = values.get("java-classes");
        if (classes != null) {
            List<String> names = Arrays.stream(classes.split(",")).map(String::strip).toList();
            read("java-classes", () -> options[0] = options[0].javaClasses(JavaClasses.of(names)));
        }
        return options[0];
    }

    private Codec<?> json(String text) {
        if (!text.startsWith("json:")) {
            throw wrong("no codec " + text, null);
        }
        String types = text.substring(5);
        try {
            Matcher list = LIST.matcher(types);
            if (list.matches()) {
                return Codecs.jsonList(type(list.group(1)));
            }
            if (!types.contains("=")) {
                return Codecs.json(type(types));
            }
            Map<String, Class<?>> byName = new LinkedHashMap<>();
            for (String part : types.split(",")) {
                String[] words = part.split("=", 2);
                byName.put(words[0].strip(), type(words[words.length - 1].strip()));
            }
            return Codecs.jsonTypes(byName);
        } catch (ClassNotFoundException e) {
            throw wrong("no class in " + text, e);
        } catch (IllegalArgumentException | CacheException e) {
            throw wrong(text + ": " + e.getMessage(), e);
        }
    }

    private static Class<?> type(String name) throws ClassNotFoundException {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        return Class.forName(name, true, loader);
    }

    private void discovery(CacheClientBuilder builder) {
        String text = values.get("discovery");
        if (text == null) {
            return;
        }
        String wait = values.get("discovery-period");
        Duration period = wait == null ? DISCOVERY_PERIOD : duration(wait);
        String[] parts = text.split(":", 2);
        String rest = parts.length > 1 ? parts[1] : "";
        Discovery found =
                switch (parts[0]) {
                    case "dns" -> {
                        Node node = Node.parse(rest);
                        yield Discovery.dnsAddresses(node.host(), node.port(), period);
                    }
                    case "srv" -> Discovery.dnsService(rest, period);
                    case "config" -> Discovery.configuration(Node.parse(rest), period);
                    default -> throw new IllegalArgumentException("no discovery " + text);
                };
        builder.discovery(found);
    }

    private void backoff(CacheClientBuilder builder) {
        if (values.containsKey("backoff-min") || values.containsKey("backoff-max")) {
            builder.backoff(
                    duration(values.getOrDefault("backoff-min", "50ms")),
                    duration(values.getOrDefault("backoff-max", "5s")));
        }
    }

    private void credentials(CacheClientBuilder builder) {
        String user = values.get("user");
        if (user != null) {
            builder.credentials(user, values.getOrDefault("password", ""));
        } else if (values.containsKey("password")) {
            throw new IllegalArgumentException("password is set without user");
        }
    }

    private void tls(CacheClientBuilder builder) {
        String authorities = values.get("tls-ca");
        String certificate = values.get("tls-certificate");
        String key = values.get("tls-key");
        if (authorities == null && certificate == null && key == null) {
            return;
        }
        if ("false".equals(values.get("tls"))) {
            throw new IllegalArgumentException("there are files for TLS, and tls is false");
        }
        builder.tls(PemFiles.context(authorities, certificate, key));
    }

    private void localCache(CacheClientBuilder builder) {
        String bytes = values.get("local-cache-bytes");
        if (bytes == null) {
            return;
        }
        LocalCacheOptions options =
                LocalCacheOptions.tracked(
                        Long.parseLong(bytes), number(values.getOrDefault("tracking-port", "0")));
        String localTtl = values.get("local-ttl");
        if (localTtl != null) {
            options = options.localTtl(duration(localTtl));
        }
        String password = values.get("tracking-password");
        builder.localCache(password == null ? options : options.password(password));
    }

    private static void tls(CacheClientBuilder builder, String text) {
        if (truth(text)) {
            try {
                builder.tls(SSLContext.getDefault());
            } catch (NoSuchAlgorithmException e) {
                throw new CacheException.Configuration("there is no default TLS context", e);
            }
        }
    }

    private static boolean truth(String text) {
        if (!text.equals("true") && !text.equals("false")) {
            throw new IllegalArgumentException("true or false, not " + text);
        }
        return text.equals("true");
    }

    private static void nodes(CacheClientBuilder builder, String text) {
        if (text.strip().equals("in-memory")) {
            builder.inMemory();
        } else {
            builder.nodes(Arrays.stream(text.split(",")).map(Node::parse).toList());
        }
    }

    private static int number(String text) {
        return Integer.parseInt(text.strip());
    }

    static Duration duration(String text) {
        Matcher matcher = DURATION.matcher(text.strip());
        if (!matcher.matches()) {
            throw new IllegalArgumentException("not a duration: " + text);
        }
        long number = Long.parseLong(matcher.group(1));
        return switch (matcher.group(2)) {
            case "ms" -> Duration.ofMillis(number);
            case "s" -> Duration.ofSeconds(number);
            case "m" -> Duration.ofMinutes(number);
            default -> Duration.ofHours(number);
        };
    }

    private static <E extends Enum<E>> E word(Class<E> type, String text) {
        return Enum.valueOf(type, text.strip().toUpperCase(Locale.ROOT).replace('-', '_'));
    }
}
