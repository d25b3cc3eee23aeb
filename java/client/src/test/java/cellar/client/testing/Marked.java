package cellar.client.testing;

import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.Serializable;

/** Stands for a class whose deserialisation has side effects. */
public final class Marked implements Serializable {
    private static final long serialVersionUID = 1;

    /** Whether an object was deserialised. */
    public static volatile boolean read;

    private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
        read = true;
        in.defaultReadObject();
    }
}
