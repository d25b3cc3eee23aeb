package cellar.client;

import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The classes whose objects may be written and read by Java serialisation. Immutable.
 *
 * <p>These are the declared classes and a fixed set: numbers, characters, booleans, the class
 * {@code Enum}, dates of {@code java.util} and {@code java.time}, the usual collections of {@code
 * java.util}, and arrays of all of them. Anyone who can write to the cache can create objects of
 * these classes with any content. So do not declare a class whose deserialisation has side effects.
 */
public final class JavaClasses {
    private static final Set<String> USUAL =
            Set.of(
                    "java.lang.Object",
                    "java.lang.Number",
                    "java.lang.Byte",
                    "java.lang.Short",
                    "java.lang.Integer",
                    "java.lang.Long",
                    "java.lang.Float",
                    "java.lang.Double",
                    "java.lang.Boolean",
                    "java.lang.Character",
                    "java.lang.String",
                    "java.lang.Enum",
                    "java.math.BigInteger",
                    "java.math.BigDecimal",
                    "java.util.Date",
                    "java.util.UUID",
                    "java.util.ArrayList",
                    "java.util.LinkedList",
                    "java.util.HashMap",
                    "java.util.LinkedHashMap",
                    "java.util.TreeMap",
                    "java.util.HashSet",
                    "java.util.LinkedHashSet",
                    "java.util.TreeSet",
                    "java.util.Vector",
                    "java.util.Hashtable",
                    // The collections of List.of, Set.of and Map.of are written as CollSer, which
                    // becomes one of the classes after it.
                    "java.util.CollSer",
                    "java.util.ImmutableCollections$List12",
                    "java.util.ImmutableCollections$ListN",
                    "java.util.ImmutableCollections$Set12",
                    "java.util.ImmutableCollections$SetN",
                    "java.util.ImmutableCollections$Map1",
                    "java.util.ImmutableCollections$MapN",
                    "java.util.Arrays$ArrayList",
                    // HashMap and HashSet check the filter for an array of these before they read
                    // entries.
                    "java.util.Map$Entry");

    /** Dates of this package are written as {@code java.time.Ser}, which becomes the date. */
    private static final String DATES = "java.time.";

    private final Set<String> names;
    private final List<String> packages;

    private JavaClasses(Set<String> names, List<String> packages) {
        this.names = names;
        this.packages = packages;
    }

    /**
     * Allows classes by their full names in the form of {@link Class#getName}; {@code
     * com.example.*} means all classes of a package, without subpackages.
     *
     * @throws IllegalArgumentException if a name is not valid; {@code *} alone is not
     */
    public static JavaClasses of(String... declared) {
        return of(Arrays.asList(declared));
    }

    /** Allows classes as {@link #of(String...)} does. */
    public static JavaClasses of(Collection<String> declared) {
        for (String one : declared) {
            if (!one.matches(
                    "[\\p{L}_$][\\p{L}\\p{N}_$]*(\\.[\\p{L}_$][\\p{L}\\p{N}_$]*)*(\\.\\*)?")) {
                throw new IllegalArgumentException("not the name of a class: " + one);
            }
        }
        return new JavaClasses(
                declared.stream().filter(one -> !one.endsWith("*")).collect(Collectors.toSet()),
                declared.stream()
                        .filter(one -> one.endsWith("*"))
                        .map(one -> one.substring(0, one.length() - 1))
                        .toList());
    }

    /** Whether objects of this class, or arrays of this element class, may be written and read. */
    public boolean contains(String name) {
        int dimensions = name.lastIndexOf('[') + 1;
        if (dimensions > 0) {
            boolean primitive = name.charAt(dimensions) != 'L';
            return primitive || contains(name.substring(dimensions + 1, name.length() - 1));
        }
        if (USUAL.contains(name) || names.contains(name)) {
            return true;
        }
        int dot = name.lastIndexOf('.');
        String home = name.substring(0, dot + 1);
        return home.equals(DATES) || packages.contains(home);
    }

    @Override
    public String toString() {
        return "JavaClasses" + names + packages;
    }
}
