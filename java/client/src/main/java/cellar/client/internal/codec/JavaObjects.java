package cellar.client.internal.codec;

import cellar.client.CacheException;
import cellar.client.JavaClasses;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputFilter.FilterInfo;
import java.io.ObjectInputFilter.Status;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.OutputStream;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Java serialisation of declared classes.
 *
 * <p>A class that is not declared is neither written nor loaded: reading rejects its name. The
 * length of an array and the number of objects are limited by the number of bytes, and the nesting
 * depth is limited.
 */
final class JavaObjects {
    /** Deeper than values are, but low enough that comparing nested sets takes little time. */
    private static final int DEPTH_MAX = 24;

    private final JavaClasses declared;
    private final Map<String, Class<?>> known = new ConcurrentHashMap<>();

    JavaObjects(JavaClasses declared) {
        this.declared = declared;
    }

    byte[] write(Object value) {
        ByteArrayOutputStream target = new ByteArrayOutputStream(512);
        try (ObjectOutputStream objects = new Writer(target)) {
            objects.writeObject(value);
        } catch (IOException e) {
            throw new CacheException.Coding(
                    "a value of " + value.getClass() + " is not written", e);
        }
        return target.toByteArray();
    }

    Object read(byte[] bytes) {
        try (ObjectInputStream objects = new Reader(new ByteArrayInputStream(bytes))) {
            objects.setObjectInputFilter(info -> check(info, bytes.length));
            return objects.readObject();
        } catch (IOException | ClassNotFoundException e) {
            throw new CacheException.Coding("an object is not read: " + e.getMessage(), e);
        }
    }

    private Status check(FilterInfo info, int bytes) {
        if (info.depth() > DEPTH_MAX || info.references() > bytes || info.arrayLength() > bytes) {
            return Status.REJECTED;
        }
        Class<?> type = info.serialClass();
        if (type == null) {
            return Status.UNDECIDED;
        }
        return declared.contains(type.getName()) ? Status.ALLOWED : Status.REJECTED;
    }

    private void require(String name) {
        if (!declared.contains(name)) {
            throw new CacheException.Coding(
                    name + " is not among java-classes: it is neither written nor read", null);
        }
    }

    private final class Writer extends ObjectOutputStream {
        Writer(OutputStream target) throws IOException {
            super(target);
        }

        @Override
        protected void annotateClass(Class<?> type) {
            require(type.getName());
        }

        @Override
        protected void annotateProxyClass(Class<?> type) {
            require(type.getName());
        }
    }

    private final class Reader extends ObjectInputStream {
        Reader(InputStream source) throws IOException {
            super(source);
        }

        @Override
        protected Class<?> resolveClass(ObjectStreamClass described)
                throws IOException, ClassNotFoundException {
            String name = described.getName();
            Class<?> type = known.get(name);
            if (type == null) {
                require(name);
                ClassLoader loader = Thread.currentThread().getContextClassLoader();
                type = Class.forName(name, false, loader);
                known.put(name, type);
            }
            return type;
        }

        @Override
        protected Class<?> resolveProxyClass(String[] interfaces) {
            throw new CacheException.Coding("a proxy is not read", null);
        }
    }
}
