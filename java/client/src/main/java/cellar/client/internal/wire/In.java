package cellar.client.internal.wire;

import cellar.client.CacheException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Bytes received and not yet parsed.
 *
 * <p>{@link #line} finds the next line without consuming it; {@link #takeLine} consumes it. So an
 * incomplete reply is parsed again when more bytes have arrived.
 */
public final class In {
    private static final int LINE_BYTES_MAX = 1 << 16;
    private static final int KEPT_BYTES_MAX = 1 << 20;
    private static final int START_BYTES = 1 << 14;

    private byte[] bytes = new byte[START_BYTES];
    private int position;
    private int end;
    private int lineEnd;
    private int next;
    private final MetaLine meta = new MetaLine();

    /** Returns the number of bytes received and not consumed. */
    public int available() {
        return end - position;
    }

    /** Returns a buffer with space for at least {@code more} bytes. */
    public ByteBuffer space(int more) {
        if (position == end) {
            position = 0;
            end = 0;
            if (bytes.length > KEPT_BYTES_MAX) {
                bytes = new byte[START_BYTES];
            }
        }
        if (bytes.length - end < more) {
            compact(more);
        }
        return ByteBuffer.wrap(bytes, end, bytes.length - end);
    }

    /** Records that {@code count} bytes were written to {@link #space}. */
    public void received(int count) {
        end += count;
    }

    /** Returns the array behind {@link #space}, to be written from {@link #end} on. */
    public byte[] array() {
        return bytes;
    }

    /** Returns the position for the next byte received. */
    public int end() {
        return end;
    }

    private void compact(int more) {
        int kept = end - position;
        int needed = kept + more;
        byte[] target = bytes;
        if (needed > bytes.length) {
            target = new byte[Math.max(needed, Math.min(bytes.length * 2, kept * 2 + START_BYTES))];
        }
        System.arraycopy(bytes, position, target, 0, kept);
        bytes = target;
        position = 0;
        end = kept;
    }

    /** Whether there is a complete line, which becomes the current one. */
    public boolean line() {
        for (int i = position; i < end; i++) {
            if (bytes[i] == '\n') {
                next = i + 1;
                lineEnd = i > position && bytes[i - 1] == '\r' ? i - 1 : i;
                return true;
            }
        }
        if (end - position > LINE_BYTES_MAX) {
            throw new CacheException.Protocol("a reply's line is longer than " + LINE_BYTES_MAX);
        }
        return false;
    }

    /** Returns the position of the first byte not consumed. */
    public int position() {
        return position;
    }

    /** Consumes everything before {@code to}. */
    public void take(int to) {
        position = to;
    }

    /**
     * Returns the position of the carriage return of the line that begins at {@code from}; -1 if it
     * has not arrived.
     */
    public int lineEnd(int from) {
        for (int i = from; i + 1 < end; i++) {
            if (bytes[i] == '\r' && bytes[i + 1] == '\n') {
                return i;
            }
        }
        if (end - from > LINE_BYTES_MAX && from == position) {
            throw new CacheException.Protocol("a reply's line is longer than " + LINE_BYTES_MAX);
        }
        return -1;
    }

    /** Consumes the current line. */
    public void takeLine() {
        position = next;
    }

    /** Whether the current line begins with {@code prefix}. */
    public boolean begins(String prefix) {
        int length = prefix.length();
        if (lineEnd - position < length) {
            return false;
        }
        for (int i = 0; i < length; i++) {
            if (bytes[position + i] != prefix.charAt(i)) {
                return false;
            }
        }
        return true;
    }

    /** Whether the current line is {@code text}. */
    public boolean is(String text) {
        return lineEnd - position == text.length() && begins(text);
    }

    /** Returns the current line as text. */
    public String text() {
        return new String(bytes, position, lineEnd - position, StandardCharsets.UTF_8);
    }

    /** Returns the first two characters of the current line, or 0 if there are fewer. */
    public int status() {
        return lineEnd - position < 2 ? 0 : MetaLine.status(bytes[position], bytes[position + 1]);
    }

    /** Parses the current line as a meta reply; valid until the next call. */
    public MetaLine meta() {
        meta.read(bytes, position, lineEnd);
        return meta;
    }

    /** Whether {@code size} bytes and their line end follow the current line. */
    public boolean hasBlock(int size) {
        return end - next >= size + 2;
    }

    /** Consumes the current line and returns the {@code size} bytes after it. */
    public byte[] takeBlock(int size) {
        int first = skipBlock(size);
        return Arrays.copyOfRange(bytes, first, first + size);
    }

    /**
     * As {@link #takeBlock}, but returns their position in {@link #array}, valid until more bytes
     * arrive.
     */
    public int skipBlock(int size) {
        int first = next;
        int last = first + size;
        if (bytes[last] != '\r' || bytes[last + 1] != '\n') {
            throw new CacheException.Protocol("a value is not as long as announced: " + text());
        }
        position = last + 2;
        return first;
    }

    /** Returns the unsigned number in word {@code index} of the current line, from 0. */
    public long number(int index) {
        int at = position;
        for (int word = 0; word < index; word++) {
            while (at < lineEnd && bytes[at] != ' ') {
                at++;
            }
            at++;
        }
        return MetaLine.number(bytes, at, lineEnd);
    }

    /** Returns the number of words in the current line. */
    public int words() {
        int words = lineEnd > position ? 1 : 0;
        for (int at = position; at < lineEnd; at++) {
            if (bytes[at] == ' ') {
                words++;
            }
        }
        return words;
    }
}
