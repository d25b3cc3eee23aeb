package cellar.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Hashtable;
import java.util.List;
import javax.naming.NamingEnumeration;
import javax.naming.NamingException;
import javax.naming.directory.Attribute;
import javax.naming.directory.Attributes;
import javax.naming.directory.InitialDirContext;

/** Finds nodes in DNS and sorts them, so that their order does not depend on the answer. */
final class DnsNodes {
    private static final String TIMEOUT_MS = "2000";

    private DnsNodes() {}

    /** Returns all addresses of {@code name}, each with {@code port}. */
    static List<Node> addresses(String name, int port) throws UnknownHostException {
        return Arrays.stream(InetAddress.getAllByName(name))
                .map(address -> Node.of(address.getHostAddress(), port))
                .sorted(Comparator.comparing(Node::address))
                .toList();
    }

    /** Returns the nodes of an SRV record; {@code server} is {@code dns:} or {@code dns://host}. */
    static List<Node> service(String name, String server) throws NamingException {
        Hashtable<String, String> settings = new Hashtable<>();
        settings.put("java.naming.factory.initial", "com.sun.jndi.dns.DnsContextFactory");
        settings.put("java.naming.provider.url", server);
        settings.put("com.sun.jndi.dns.timeout.initial", TIMEOUT_MS);
        settings.put("com.sun.jndi.dns.timeout.retries", "2");
        InitialDirContext context = new InitialDirContext(settings);
        try {
            Attributes found = context.getAttributes(name, new String[] {"SRV"});
            Attribute records = found.get("SRV");
            List<Node> nodes = new ArrayList<>();
            if (records != null) {
                NamingEnumeration<?> all = records.getAll();
                while (all.hasMore()) {
                    nodes.add(node(String.valueOf(all.next())));
                }
            }
            nodes.sort(Comparator.comparing(Node::address));
            return nodes;
        } finally {
            context.close();
        }
    }

    /** Parses an SRV record: priority, weight, port, and host with a final dot. */
    private static Node node(String entry) {
        String[] words = entry.split(" ");
        String host =
                words[3].endsWith(".") ? words[3].substring(0, words[3].length() - 1) : words[3];
        int weight = Math.max(1, Integer.parseInt(words[1]));
        return new Node(host, Integer.parseInt(words[2]), weight, "");
    }
}
