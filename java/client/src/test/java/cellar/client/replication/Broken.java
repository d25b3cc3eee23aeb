package cellar.client.replication;

import cellar.client.testing.Cable;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A rule of docs/java-replication.md that a client breaks on purpose; the checker must detect it.
 *
 * <p>The client is the real one. The cable breaks the rule: it changes stores on their way, and
 * delays some of them so that others overtake them.
 */
enum Broken {
    /** None. */
    NOTHING,
    /** Deletes leave no tombstone. */
    TRACES,
    /** Adding overwrites. */
    ADDING,
    /** Conditional stores ignore the condition. */
    COMPARING,
    /** Copies have no order. */
    ORDER;

    private static final String RESERVED = "cellar:";
    private static final int KIND_SHIFT = 30;
    private static final int GONE = 2;
    private static final int ORDERED = 1 << 29;
    private static final int WITHOUT_VIEW = 0xc000ffff;
    private static final int ORDER_BYTES = 13;

    /** One copy of this many is delayed, up to the limit. */
    private static final int LATE_ONE_OF = 8;

    private static final int LATE_MS_MAX = 120;

    /** Returns the filter that breaks the rule on one connection. */
    Cable.Filter filter() {
        return this == NOTHING ? new Cable.Filter() {} : new Forger();
    }

    private final class Forger implements Cable.Filter {
        private byte[] rest = new byte[0];

        @Override
        public byte[] sent(byte[] bytes) {
            byte[] all = Arrays.copyOf(rest, rest.length + bytes.length);
            System.arraycopy(bytes, 0, all, rest.length, bytes.length);
            ByteArrayOutputStream forged = new ByteArrayOutputStream();
            int at = 0;
            for (int end = request(all, at, forged); end > at; end = request(all, at, forged)) {
                at = end;
            }
            rest = Arrays.copyOfRange(all, at, all.length);
            return forged.toByteArray();
        }

        /**
         * Changes the request at {@code at}; returns its end, or {@code at} if it is incomplete.
         */
        private int request(byte[] all, int at, ByteArrayOutputStream forged) {
            int end = at;
            while (end + 1 < all.length && (all[end] != '\r' || all[end + 1] != '\n')) {
                end++;
            }
            if (end + 1 >= all.length) {
                return at;
            }
            String line = new String(all, at, end - at, StandardCharsets.ISO_8859_1);
            int next = end + 2;
            if (!line.startsWith("ms ")) {
                write(forged, line);
                return next;
            }
            int size = Integer.parseInt(line.split(" ")[2]);
            if (next + size + 2 > all.length) {
                return at;
            }
            store(line, Arrays.copyOfRange(all, next, next + size), forged);
            return next + size + 2;
        }

        private void store(String line, byte[] value, ByteArrayOutputStream forged) {
            List<String> words = new ArrayList<>(List.of(line.split(" ")));
            byte[] stored = value;
            if (!words.get(1).startsWith(RESERVED)) {
                int flags = flags(words);
                if ((flags & ORDERED) != 0) {
                    delay();
                }
                switch (Broken.this) {
                    case TRACES -> {
                        if (flags >>> KIND_SHIFT == GONE) {
                            words.removeIf(word -> word.startsWith("T"));
                            words.add(3, "T-1");
                        }
                    }
                    case ADDING -> words.replaceAll(word -> word.equals("ME") ? "MS" : word);
                    case COMPARING -> words.subList(3, words.size()).removeIf(Forger::isVersion);
                    case ORDER -> {
                        if ((flags & ORDERED) != 0) {
                            stored = Arrays.copyOf(value, value.length - ORDER_BYTES);
                            words.set(2, "" + stored.length);
                            words.removeIf(word -> word.startsWith("F"));
                            words.add(3, "F" + Integer.toUnsignedLong(flags & WITHOUT_VIEW));
                        }
                    }
                    default -> {}
                }
            }
            write(forged, String.join(" ", words));
            forged.writeBytes(stored);
            write(forged, "");
        }

        private static boolean isVersion(String word) {
            return word.startsWith("C");
        }

        private static int flags(List<String> words) {
            return words.stream()
                    .skip(3)
                    .filter(word -> word.startsWith("F"))
                    .mapToInt(word -> Integer.parseUnsignedInt(word.substring(1)))
                    .findFirst()
                    .orElse(0);
        }

        private static void write(ByteArrayOutputStream out, String line) {
            out.writeBytes((line + "\r\n").getBytes(StandardCharsets.ISO_8859_1));
        }

        private static void delay() {
            ThreadLocalRandom random = ThreadLocalRandom.current();
            if (random.nextInt(LATE_ONE_OF) != 0) {
                return;
            }
            try {
                // paced: some copies are late, so that others overtake them.
                Thread.sleep(random.nextInt(LATE_MS_MAX));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
