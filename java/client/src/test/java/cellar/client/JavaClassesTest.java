package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.testing.Marked;
import cellar.client.testing.Serialised;
import java.io.Serializable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What Java serialisation writes and reads, and above all what it rejects. */
class JavaClassesTest {
    /** A declared class. */
    record Order(long id, List<Line> lines, Object more) implements Serializable {}

    /** A declared class. */
    record Line(String product, int count) implements Serializable {}

    /** A declared class. */
    static class Base implements Serializable {
        private static final long serialVersionUID = 1;
    }

    /** A class that is not declared, with a declared superclass. */
    static final class Derived extends Base {
        private static final long serialVersionUID = 1;
    }

    private static final Codec<Object> CODEC =
            codec(Order.class.getName(), Line.class.getName(), Base.class.getName());

    private static Codec<Object> codec(String... classes) {
        return Codecs.whalin(WhalinOptions.plain().javaClasses(JavaClasses.of(classes)));
    }

    static Stream<Object> declared() {
        Map<String, Object> map = new HashMap<>(Map.of("a", 1, "b", new Line("p", 2)));
        return Stream.of(
                new Order(1, List.of(new Line("p", 2)), null),
                new Order(1, new ArrayList<>(Arrays.asList(new Line("p", 2), null)), "text"),
                new Order(2, List.of(), Set.of(new Line("q", 1))),
                map,
                new LinkedHashMap<>(map),
                new TreeMap<>(Map.of("k", new Date(5))),
                new HashSet<>(List.of(1L, 2.5, 'c', true, (short) 3)),
                List.of(Instant.ofEpochSecond(1), BigDecimal.TEN, Thread.State.NEW.name()));
    }

    @ParameterizedTest
    @MethodSource
    void declared(Object value) {
        Codec.Encoded encoded = CODEC.encode(value);
        assertEquals(value, CODEC.decode(encoded.bytes(), encoded.flags()));
        assertEquals(8, encoded.flags());
        // Version 3.0 of whalin's client gives objects the flags 0.
        assertEquals(value, CODEC.decode(encoded.bytes(), 0));
    }

    static Stream<Arguments> undeclared() {
        Marked gadget = new Marked();
        Stream<Object> values =
                Stream.of(
                        gadget,
                        new Marked[] {gadget},
                        new Marked[0][0],
                        new Derived(),
                        new ArrayList<>(List.of(gadget)),
                        new HashMap<>(Map.of(gadget, "value")),
                        new HashMap<>(Map.of("key", gadget)),
                        new HashSet<>(Set.of(gadget)),
                        new Order(1, List.of(), gadget),
                        new Order(1, List.of(), new Object[] {1, gadget}),
                        Thread.State.NEW,
                        Marked.class,
                        (Supplier<String> & Serializable) () -> "called",
                        Proxy.newProxyInstance(
                                Marked.class.getClassLoader(),
                                new Class<?>[] {Supplier.class},
                                (InvocationHandler & Serializable)
                                        (proxy, method, words) -> "called"));
        // Spelled out, because an array would be taken for several arguments.
        return values.map(value -> Arguments.of(new Object[] {value}));
    }

    @ParameterizedTest
    @MethodSource
    void undeclared(Object value) throws Exception {
        byte[] bytes = Serialised.bytes(value);
        Marked.read = false;
        refused(() -> CODEC.encode(value));
        refused(() -> CODEC.decode(bytes, 8));
        refused(() -> CODEC.decode(bytes, 0));
        assertFalse(Marked.read, "the object was made");
    }

    private static void refused(Supplier<Object> call) {
        CacheException failure = assertThrows(CacheException.Coding.class, call::get);
        String message = failure.getMessage();
        assertTrue(message.contains("java-classes") || message.contains("proxy"), message);
    }

    @Test
    void withoutDeclaredClassesNothingIsSerialised() throws Exception {
        for (Object value : List.of(new ArrayList<>(List.of(1)), new Line("p", 1))) {
            byte[] bytes = Serialised.bytes(value);
            refused(() -> Codecs.whalin().encode(value));
            refused(() -> Codecs.whalin().decode(bytes, 8));
            refused(() -> Codecs.whalin().decode(bytes, 0));
        }
    }

    @Test
    void aNameThatIsNotDeclaredIsNotEvenLookedUp() throws Exception {
        byte[] bytes = Serialised.bytes(new Marked());
        String text = new String(bytes, StandardCharsets.ISO_8859_1);
        String other = text.replace("cellar.client.testing.Marked", "nobody.has.such.a.class.here");
        CacheException failure =
                assertThrows(
                        CacheException.Coding.class,
                        () -> CODEC.decode(other.getBytes(StandardCharsets.ISO_8859_1), 8));
        assertTrue(failure.getMessage().startsWith("nobody.has.such.a.class.here is not among"));
    }

    @Test
    void aPackageIsItsClassesAndNotWhatLiesBelow() {
        JavaClasses classes = JavaClasses.of("com.example.*", "org.one.Thing");
        assertTrue(classes.contains("com.example.Order"));
        assertTrue(classes.contains("[[Lcom.example.Order;"));
        assertTrue(classes.contains("com.example.Order$Line"));
        assertTrue(classes.contains("org.one.Thing"));
        assertTrue(classes.contains("[I"));
        for (String other :
                List.of(
                        "com.example.sub.Order",
                        "com.exampleX.Order",
                        "com.Order",
                        "Order",
                        "org.one.Thing$Inner",
                        "[Lorg.one.Other;")) {
            assertFalse(classes.contains(other), other);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"*", "", "com.example.**", "com..A", "com.example.", "!a.B", "a b"})
    void whatIsNoClassIsRefused(String name) {
        assertThrows(IllegalArgumentException.class, () -> JavaClasses.of(name));
    }

    @Test
    void fewBytesMakeNeitherLargeArraysNorDeepHeaps() throws Exception {
        byte[] array = Serialised.bytes(new int[] {1, 2, 3});
        int length = array.length - 3 * 4 - 4;
        array[length] = 0x40;
        assertThrows(CacheException.Coding.class, () -> CODEC.decode(array, 8));
        List<Object> deep = new ArrayList<>();
        for (int i = 0; i < 30; i++) {
            deep = new ArrayList<>(List.of(deep));
        }
        byte[] heap = Serialised.bytes(deep);
        assertThrows(CacheException.Coding.class, () -> CODEC.decode(heap, 8));
        Set<Object> bomb = new HashSet<>(Set.of("end"));
        for (int i = 0; i < 30; i++) {
            bomb = new HashSet<>(List.of(bomb, new HashSet<>(Set.of(i))));
        }
        byte[] sets = Serialised.bytes(bomb);
        assertThrows(CacheException.Coding.class, () -> CODEC.decode(sets, 8));
    }
}
