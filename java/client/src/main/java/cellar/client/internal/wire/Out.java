package cellar.client.internal.wire;

import java.util.Arrays;

/** A buffer of bytes to send; it grows, and shrinks again after a large request. */
public final class Out {
    private static final int KEPT_BYTES_MAX = 1 << 20;
    private static final int START_BYTES = 1 << 13;

    private byte[] bytes = new byte[START_BYTES];
    private int length;

    /** Returns the bytes, valid up to {@link #length}. */
    public byte[] bytes() {
        return bytes;
    }

    /** Returns the number of bytes to send. */
    public int length() {
        return length;
    }

    /** Removes all bytes. */
    public void clear() {
        length = 0;
        if (bytes.length > KEPT_BYTES_MAX) {
            bytes = new byte[START_BYTES];
        }
    }

    /** Appends one byte. */
    public Out put(char ascii) {
        room(1);
        bytes[length++] = (byte) ascii;
        return this;
    }

    /** Appends bytes. */
    public Out put(byte[] more) {
        room(more.length);
        System.arraycopy(more, 0, bytes, length, more.length);
        length += more.length;
        return this;
    }

    /** Appends ASCII text. */
    public Out put(String ascii) {
        int count = ascii.length();
        room(count);
        for (int i = 0; i < count; i++) {
            bytes[length + i] = (byte) ascii.charAt(i);
        }
        length += count;
        return this;
    }

    /** Appends a number in decimal, as unsigned if {@code number} is a version. */
    public Out put(long number) {
        if (number < 0) {
            return put(Long.toUnsignedString(number));
        }
        int digits = digits(number);
        room(digits);
        for (int at = length + digits - 1; at >= length; at--) {
            bytes[at] = (byte) ('0' + number % 10);
            number /= 10;
        }
        length += digits;
        return this;
    }

    /** Appends a line end. */
    public Out end() {
        room(2);
        bytes[length] = '\r';
        bytes[length + 1] = '\n';
        length += 2;
        return this;
    }

    private static int digits(long number) {
        int digits = 1;
        for (long rest = number; rest >= 10; rest /= 10) {
            digits++;
        }
        return digits;
    }

    private void room(int more) {
        if (bytes.length - length < more) {
            bytes = Arrays.copyOf(bytes, Math.max(bytes.length * 2, length + more));
        }
    }
}
