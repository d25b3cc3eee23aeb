package libraries;

/** Folsom over the binary protocol. */
final class FolsomBinary {
    public static void main(String[] arguments) {
        Folsom.main(new String[] {"binary"});
    }
}
