package libraries;

/** spymemcached over the binary protocol. */
final class SpymemcachedBinary {
    public static void main(String[] arguments) {
        Spymemcached.main(new String[] {"binary"});
    }
}
