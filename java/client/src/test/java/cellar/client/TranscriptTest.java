package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.wire.CountOperation;
import cellar.client.internal.wire.DeleteOperation;
import cellar.client.internal.wire.Dialect;
import cellar.client.internal.wire.In;
import cellar.client.internal.wire.Operation;
import cellar.client.internal.wire.ReadOperation;
import cellar.client.internal.wire.StoreOperation;
import cellar.client.internal.wire.TouchOperation;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The client decodes the replies in conformance/memcached, at whatever byte they are split. */
class TranscriptTest {
    private static final Path FOLDER = Path.of("../../conformance/memcached");
    private static final Dialect META = Dialect.of("1.6.45", true);
    private static final byte[] KEY = {'k'};

    private record Exchange(String request, String answer) {}

    private static List<Exchange> exchanges() throws Exception {
        List<Exchange> all = new ArrayList<>();
        try (Stream<Path> files = Files.list(FOLDER)) {
            for (Path file : files.sorted().toList()) {
                read(Files.readAllLines(file), all);
            }
        }
        return all;
    }

    private static void read(List<String> lines, List<Exchange> all) {
        List<String> requests = new ArrayList<>();
        StringBuilder answer = new StringBuilder();
        for (String line : lines) {
            if (line.startsWith("> ") && answer.length() > 0) {
                end(requests, answer, all);
            }
            if (line.startsWith("> ")) {
                requests.add(line.substring(2));
            } else if (line.startsWith("< ")) {
                answer.append(line.substring(2)).append("\r\n");
            } else if (line.startsWith("<") || line.startsWith(">") || line.startsWith("!")) {
                requests.add("not a plain exchange");
                requests.add("not a plain exchange");
                requests.add("not a plain exchange");
            }
        }
        end(requests, answer, all);
    }

    /** Ends an exchange: one line, or two if the second is a value, and a complete reply. */
    private static void end(List<String> requests, StringBuilder answer, List<Exchange> all) {
        boolean value = requests.size() == 2 && stores(requests.get(0));
        if ((requests.size() == 1 || value) && answer.length() > 0) {
            all.add(new Exchange(requests.get(0), answer.toString()));
        }
        requests.clear();
        answer.setLength(0);
    }

    private static boolean stores(String request) {
        return request.matches("(set|add|replace|append|prepend|cas|ms) .*");
    }

    private static Operation<?> operation(String request) {
        String[] words = request.split(" ");
        return switch (words.length == 0 ? "" : words[0]) {
            case "mg" -> new ReadOperation<>(KEY, 0, read -> read.hit());
            case "get", "gets" ->
                    words.length == 2 ? new ReadOperation<>(KEY, 0, read -> read.hit()) : null;
            case "set", "add", "replace", "append", "prepend", "cas", "ms" ->
                    new StoreOperation(KEY, KEY, 0, 0, StoreOperation.Mode.SET, 0);
            case "md", "delete" -> new DeleteOperation(KEY, 0);
            case "touch" -> new TouchOperation(KEY, 0);
            case "incr", "decr" -> new CountOperation(KEY, 1, false, -1, 0);
            case "ma" -> request.contains(" v") ? new CountOperation(KEY, 1, false, -1, 0) : null;
            default -> null;
        };
    }

    /** Placeholders stand for numbers or repeated characters. */
    private static String plain(String answer) {
        return answer.replaceAll("\\{(\\w)\\*\\d+\\}", "$1").replaceAll("\\{[^}]*\\}", "1");
    }

    @Test
    void everyAnswerIsTakenWholeHoweverItIsCut() throws Exception {
        int checked = 0;
        for (Exchange exchange : exchanges()) {
            if (operation(exchange.request()) == null
                    || exchange.answer().contains("{")
                    || exchange.answer().contains("\\")) {
                continue;
            }
            byte[] answer = plain(exchange.answer()).getBytes(StandardCharsets.UTF_8);
            boolean meta = exchange.request().matches("m[gsda] .*");
            for (int cut = 0; cut <= answer.length; cut++) {
                check(exchange, answer, cut, meta ? META : Dialect.CLASSIC);
            }
            checked++;
        }
        assertTrue(checked > 150, "only " + checked + " exchanges");
    }

    private static void check(Exchange exchange, byte[] answer, int cut, Dialect dialect) {
        Operation<?> operation = operation(exchange.request());
        In in = new In();
        boolean done = feed(in, answer, 0, cut, operation, dialect);
        if (!done) {
            done = feed(in, answer, cut, answer.length, operation, dialect);
        }
        assertTrue(done, exchange + " cut at " + cut);
        assertEquals(0, in.available(), exchange + " cut at " + cut);
    }

    private static boolean feed(
            In in, byte[] answer, int from, int to, Operation<?> operation, Dialect dialect) {
        in.space(to - from);
        System.arraycopy(answer, from, in.array(), in.end(), to - from);
        in.received(to - from);
        return operation.decode(in, dialect);
    }

    /** The bytes before a reply have been consumed, so more bytes move the reply. */
    @Test
    void aValueLeftInPlaceIsTheSameHoweverItsReplyIsCut() {
        for (Dialect dialect : List.of(META, Dialect.CLASSIC)) {
            String reply =
                    dialect.meta()
                            ? "VA 10 f0\r\n0123456789\r\n"
                            : "VALUE k 0 10\r\n0123456789\r\nEND\r\n";
            for (int cut = 1; cut < reply.length(); cut++) {
                In in = new In();
                receive(in, "x".repeat(16_000) + "\n");
                assertTrue(in.line());
                in.takeLine();
                ReadOperation<String> read =
                        new ReadOperation<>(KEY, 0, TranscriptTest::text).inPlace();
                receive(in, reply.substring(0, cut));
                if (!read.decode(in, dialect)) {
                    receive(in, reply.substring(cut));
                    assertTrue(read.decode(in, dialect));
                }
                read.finish();
                assertEquals("0123456789", read.join());
            }
        }
    }

    private static void receive(In in, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        in.space(Math.max(bytes.length, 1 << 12)).put(bytes);
        in.received(bytes.length);
    }

    private static String text(ReadOperation<String> read) {
        byte[] received = read.received();
        return received == null
                ? new String(read.bytes(), StandardCharsets.UTF_8)
                : new String(received, read.receivedAt(), 10, StandardCharsets.UTF_8);
    }
}
