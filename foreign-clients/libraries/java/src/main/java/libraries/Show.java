package libraries;

import java.util.Arrays;
import java.util.stream.Collectors;

/** What every program needs: the server's address, and lines to be compared. */
final class Show {
    static final String HOST = System.getenv("HOST");
    static final int PORT = Integer.parseInt(System.getenv("PORT"));
    static final String URL = "redis://" + HOST + ":" + PORT;
    static final String ADDRESS = HOST + ":" + PORT;

    /** Whether the program is to use the setting that its row names. */
    static final boolean SETTING = System.getenv("SETTING") != null;

    private Show() {}

    /** One line of the program's result. */
    static void show(String what, Object... values) {
        System.out.println(
                what
                        + ": "
                        + Arrays.stream(values)
                                .map(String::valueOf)
                                .collect(Collectors.joining(" ")));
    }

    /** Whether a TTL is what was set, but for a moment that has gone by. */
    static boolean near(long seconds, long expected) {
        return expected - 3 <= seconds && seconds <= expected;
    }

    /** A program that may fail. */
    interface Program {
        void run() throws Exception;
    }

    /** Runs a program to its end, whatever threads it leaves behind. */
    static void run(Program program) {
        try {
            program.run();
            System.exit(0);
        } catch (Throwable problem) {
            Throwable cause = problem;
            while (cause.getCause() != null && cause.getCause() != cause) {
                cause = cause.getCause();
            }
            System.err.println(cause);
            System.exit(1);
        }
    }
}
