package cellar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellar.client.internal.net.Loops;
import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** If an optional library is missing, the exception names its artifact. */
class MissingLibraryTest {
    /**
     * Returns a class loader of the client and its libraries, except files with {@code left} in
     * their names.
     */
    private static URLClassLoader without(String left) throws Exception {
        List<URL> kept = new ArrayList<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!new File(path).getName().contains(left)) {
                kept.add(new File(path).toURI().toURL());
            }
        }
        return new URLClassLoader(kept.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
    }

    private static void assertNames(
            String artifact, String left, Class<?> owner, String name, Class<?> type, Object given)
            throws Exception {
        try (URLClassLoader loader = without(left)) {
            Method method = loader.loadClass(owner.getName()).getMethod(name, type);
            method.invoke(null, given);
            throw new AssertionError("there was no exception");
        } catch (InvocationTargetException e) {
            Throwable cause = e.getCause();
            assertEquals(CacheException.Configuration.class.getName(), cause.getClass().getName());
            assertTrue(cause.getMessage().contains(artifact), cause.getMessage());
        }
    }

    @Test
    void jsonNamesJackson() throws Exception {
        Map<String, Class<?>> types = Map.of("text", String.class);
        String artifact = "com.fasterxml.jackson.core:jackson-databind";
        assertNames(artifact, "jackson", Codecs.class, "json", Class.class, String.class);
        assertNames(artifact, "jackson", Codecs.class, "jsonList", Class.class, String.class);
        assertNames(artifact, "jackson", Codecs.class, "jsonTypes", Map.class, types);
    }

    @Test
    void ioUringNamesItsLibrary() throws Exception {
        try (URLClassLoader loader = without("io_uring")) {
            Class<?> kind = loader.loadClass(Loops.Transport.class.getName());
            Constructor<?> made =
                    loader.loadClass(Loops.class.getName()).getConstructor(kind, int.class);
            Object transport = kind.getMethod("valueOf", String.class).invoke(null, "IO_URING");
            made.newInstance(transport, 1);
            throw new AssertionError("there was no exception");
        } catch (InvocationTargetException e) {
            String message = e.getCause().getMessage();
            assertTrue(message.contains("io.netty:netty-transport-native-io_uring"), message);
        }
    }
}
