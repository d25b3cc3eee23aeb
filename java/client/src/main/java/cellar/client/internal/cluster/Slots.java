package cellar.client.internal.cluster;

import cellar.client.internal.wire.SlotsOperation;

/**
 * Calculates the slot of a key: the CRC16 of its hash tag, or of the whole key if it has none.
 *
 * <p>Source: redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec, "Hash tags" and
 * appendix A.
 */
final class Slots {
    private static final int POLYNOMIAL = 0x1021;
    private static final int[] TABLE = table();

    private Slots() {}

    private static int[] table() {
        int[] table = new int[256];
        for (int i = 0; i < table.length; i++) {
            int remainder = i << 8;
            for (int bit = 0; bit < 8; bit++) {
                boolean carries = (remainder & 0x8000) != 0;
                remainder = (remainder << 1) ^ (carries ? POLYNOMIAL : 0);
            }
            table[i] = remainder & 0xffff;
        }
        return table;
    }

    /** Returns the slot of {@code key}. */
    static int of(byte[] key) {
        int from = 0;
        int to = key.length;
        int open = indexOf(key, '{', 0);
        int close = open < 0 ? -1 : indexOf(key, '}', open + 1);
        if (close > open + 1) {
            from = open + 1;
            to = close;
        }
        int crc = 0;
        for (int i = from; i < to; i++) {
            crc = (crc << 8 ^ TABLE[(crc >> 8 ^ key[i]) & 0xff]) & 0xffff;
        }
        return crc % SlotsOperation.SLOTS;
    }

    private static int indexOf(byte[] key, int wanted, int from) {
        for (int i = from; i < key.length; i++) {
            if (key[i] == wanted) {
                return i;
            }
        }
        return -1;
    }
}
