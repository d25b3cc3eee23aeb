package cellar.client.internal.net;

import cellar.client.internal.wire.In;
import cellar.client.internal.wire.MetaLine;
import cellar.client.internal.wire.Out;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The items of a client without a server: memcached's meta commands over a map.
 *
 * <p>It understands the requests of {@code internal.wire} in that dialect and answers as memcached
 * does, so tests of leases, versions and counters use the client's own code. An item expires when
 * its TTL has passed by the caller's clock, to the nanosecond; nothing is evicted. Safe for use by
 * many threads.
 *
 * <p>Source: memcached doc/protocol.txt, "Meta Commands".
 */
public final class MemoryStore {
    /** The default of memcached's limit on a value. */
    private static final int VALUE_BYTES_MAX = 1 << 20;

    private static final long RELATIVE_S_MAX = 30L * 24 * 3600;
    private static final long SECOND_NS = 1_000_000_000;
    private static final byte[] NOTHING = new byte[0];

    /** A stored item. */
    private static final class Item {
        byte[] value;
        long flags;
        long version;
        boolean expires;
        long until_ns;

        /** Whether a caller has won the lease. */
        boolean promised;

        boolean stale;

        Item(byte[] value, long flags) {
            this.value = value;
            this.flags = flags;
        }
    }

    /** The flags of a command: one letter each, with an optional argument. */
    private static final class Flags {
        private final Map<Character, String> texts = new HashMap<>();

        Flags(String[] words, int from) {
            for (int i = from; i < words.length; i++) {
                texts.put(words[i].charAt(0), words[i].substring(1));
            }
        }

        boolean has(char letter) {
            return texts.containsKey(letter);
        }

        String text(char letter) {
            return texts.getOrDefault(letter, "");
        }

        long number(char letter) {
            String text = texts.get(letter);
            return text == null ? 0 : Long.parseUnsignedLong(text);
        }
    }

    private final Map<String, Item> items = new HashMap<>();
    private long versions;

    /** Executes {@code request} at the time {@code now_ns}; appends the answers to {@code to}. */
    synchronized void execute(Out request, long now_ns, In to) {
        In in = new In();
        in.space(request.length());
        System.arraycopy(request.bytes(), 0, in.array(), in.end(), request.length());
        in.received(request.length());
        Out answers = new Out();
        while (in.line()) {
            String[] words = in.text().split(" ");
            if (words[0].equals("ms")) {
                byte[] value = in.takeBlock(Integer.parseInt(words[2]));
                store(words[1], value, new Flags(words, 3), now_ns, answers);
            } else {
                in.takeLine();
                execute(words, now_ns, answers);
            }
        }
        to.space(answers.length());
        System.arraycopy(answers.bytes(), 0, to.array(), to.end(), answers.length());
        to.received(answers.length());
    }

    private void execute(String[] words, long now_ns, Out answers) {
        switch (words[0]) {
            case "mg" -> read(words[1], new Flags(words, 2), now_ns, answers);
            case "md" -> delete(words[1], new Flags(words, 2), now_ns, answers);
            case "ma" -> count(words[1], new Flags(words, 2), now_ns, answers);
            case "mn" -> answers.put("MN").end();
            case "flush_all" -> {
                items.clear();
                answers.put("OK").end();
            }
            case "lru_crawler" -> list(now_ns, answers);
            default -> answers.put("ERROR").end();
        }
    }

    /** Returns the item of {@code key}; null if there is none or it has expired. */
    private @Nullable Item live(String key, long now_ns) {
        Item item = items.get(key);
        if (item != null && item.expires && now_ns - item.until_ns >= 0) {
            items.remove(key);
            return null;
        }
        return item;
    }

    private Item put(String key, byte[] value, long flags) {
        Item item = new Item(value, flags);
        item.version = ++versions;
        items.put(key, item);
        return item;
    }

    private static void expire(Item item, long expiry, long now_ns) {
        long left_s = expiry;
        if (expiry > RELATIVE_S_MAX) {
            left_s = Math.max(0, expiry - System.currentTimeMillis() / 1000);
        }
        item.expires = expiry != 0;
        item.until_ns = now_ns + left_s * SECOND_NS;
    }

    /** Rounded up, as memcached and Cellar do. */
    private static long left_s(Item item, long now_ns) {
        return item.expires
                ? (item.until_ns - now_ns + SECOND_NS - 1) / SECOND_NS
                : MetaLine.FOREVER;
    }

    private void read(String key, Flags flags, long now_ns, Out answers) {
        Item item = live(key, now_ns);
        boolean won = false;
        if (item == null && flags.has('N')) {
            item = put(key, NOTHING, 0);
            expire(item, flags.number('N'), now_ns);
            won = true;
        }
        if (item == null) {
            if (!flags.has('q')) {
                answers.put("EN").end();
            }
            return;
        }
        if (flags.has('T')) {
            expire(item, flags.number('T'), now_ns);
        }
        boolean early = flags.has('R') && item.expires && left_s(item, now_ns) < flags.number('R');
        won |= (item.stale || early) && !item.promised;
        boolean waiting = item.promised && !won;
        item.promised |= won;
        answer(item, flags, now_ns, answers);
        answers.put(won ? " W" : "").put(waiting ? " Z" : "").put(item.stale ? " X" : "").end();
        if (flags.has('v')) {
            answers.put(item.value).end();
        }
    }

    /** Appends the line of an answer without its line end. */
    private static void answer(Item item, Flags flags, long now_ns, Out answers) {
        answers.put(flags.has('v') ? "VA " + item.value.length : "HD");
        if (flags.has('f')) {
            answers.put(" f").put(item.flags);
        }
        if (flags.has('t')) {
            answers.put(" t" + left_s(item, now_ns));
        }
        if (flags.has('c')) {
            answers.put(" c").put(item.version);
        }
        if (flags.has('O')) {
            answers.put(" O" + flags.text('O'));
        }
    }

    private void store(String key, byte[] value, Flags flags, long now_ns, Out answers) {
        Item there = live(key, now_ns);
        String mode = flags.has('M') ? flags.text('M') : "S";
        boolean differs = flags.has('C') && there != null && there.version != flags.number('C');
        if (value.length > VALUE_BYTES_MAX) {
            answers.put("SERVER_ERROR object too large for cache").end();
        } else if (flags.has('C') && there == null) {
            answers.put("NF").end();
        } else if (differs) {
            answers.put("EX").end();
        } else if (!mode.equals("S") && mode.equals("E") != (there == null)) {
            answers.put("NS").end();
        } else if (there != null && (mode.equals("A") || mode.equals("P"))) {
            there.value = mode.equals("A") ? join(there.value, value) : join(value, there.value);
            there.version = ++versions;
            answer(there, flags, now_ns, answers);
            answers.end();
        } else {
            Item item = put(key, value, flags.number('F'));
            expire(item, flags.number('T'), now_ns);
            answer(item, flags, now_ns, answers);
            answers.end();
        }
    }

    private static byte[] join(byte[] first, byte[] second) {
        byte[] whole = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, whole, first.length, second.length);
        return whole;
    }

    private void delete(String key, Flags flags, long now_ns, Out answers) {
        Item item = live(key, now_ns);
        if (item == null) {
            answers.put("NF").end();
        } else if (flags.has('C') && item.version != flags.number('C')) {
            answers.put("EX").end();
        } else if (flags.has('I')) {
            item.stale = true;
            item.promised = false;
            item.version = ++versions;
            if (flags.has('T')) {
                expire(item, flags.number('T'), now_ns);
            }
            answers.put("HD").end();
        } else {
            items.remove(key);
            answers.put("HD").end();
        }
    }

    private void count(String key, Flags flags, long now_ns, Out answers) {
        Item item = live(key, now_ns);
        if (item == null && !flags.has('N')) {
            answers.put("NF").end();
            return;
        }
        String text;
        if (item == null) {
            text = flags.text('J');
            item = put(key, NOTHING, 0);
            expire(item, flags.number('N'), now_ns);
        } else {
            String digits = new String(item.value, StandardCharsets.US_ASCII).strip();
            if (!digits.matches("\\d{1,20}")) {
                answers.put("CLIENT_ERROR cannot increment or decrement non-numeric value").end();
                return;
            }
            long before = Long.parseUnsignedLong(digits);
            long by = flags.number('D');
            boolean under = Long.compareUnsigned(before, by) < 0;
            long down = under ? 0 : before - by;
            text = Long.toUnsignedString(flags.text('M').equals("D") ? down : before + by);
        }
        item.value = text.getBytes(StandardCharsets.US_ASCII);
        item.version = ++versions;
        answer(item, flags, now_ns, answers);
        answers.end().put(item.value).end();
    }

    private void list(long now_ns, Out answers) {
        items.values().removeIf(item -> item.expires && now_ns - item.until_ns >= 0);
        for (String key : items.keySet()) {
            answers.put("key=" + URLEncoder.encode(key, StandardCharsets.UTF_8) + " exp=-1").end();
        }
        answers.put("END").end();
    }
}
