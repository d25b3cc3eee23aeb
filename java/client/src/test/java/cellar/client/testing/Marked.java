package cellar.client.testing;

import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.Serializable;

/** Stands for a class that does something when it is read. */
public final class Marked implements Serializable {
    private static final long serialVersionUID = 1;

    /** Whether one has been read. */
    public static volatile boolean read;

    private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
        read = true;
        in.defaultReadObject();
    }
}
