package cellar.bench;

import java.util.List;

/**
 * How much is measured.
 *
 * @param quick shows only that everything works
 * @param rounds how often each client has a process of its own in a row
 * @param finalists how many of the others are left after the first round
 * @param warmup_ms before each measurement
 * @param iterations of {@code iteration_ms} in each process
 * @param iteration_ms of each
 * @param benchmarks of {@link Clients}, with the number of threads
 * @param values kinds of {@link Values}
 */
record Plan(
        boolean quick,
        int rounds,
        int finalists,
        int warmup_ms,
        int iterations,
        int iteration_ms,
        List<Load> benchmarks,
        List<String> values) {
    /** What clients do in a row. */
    record Load(String title, String benchmark, int threads) {}

    private static final Load GET_ALONE = new Load("get, 1 thread, blocking", "get", 1);
    private static final Load GET = new Load("get, 64 threads, blocking", "get", 64);
    private static final Load GET_ASYNC = new Load("get, window of 256", "getAsync", 1);
    private static final Load SET_ALONE = new Load("set, 1 thread, blocking", "set", 1);
    private static final Load SET = new Load("set, 64 threads, blocking", "set", 64);
    private static final List<String> VALUES = List.of("100B", "4KiB", "object");
    private static final int ALL = 100;

    /** Two minutes. */
    static Plan trial() {
        List<Load> all = List.of(GET_ALONE, SET_ALONE, GET, SET, GET_ASYNC);
        return new Plan(true, 1, ALL, 200, 1, 200, all, List.of("100B"));
    }

    /** Twenty minutes. */
    static Plan usual() {
        List<Load> gets = List.of(GET_ALONE, GET, GET_ASYNC);
        return new Plan(false, 3, 3, 1000, 3, 500, gets, VALUES);
    }

    /** Three hours. */
    static Plan full() {
        List<Load> all = List.of(GET_ALONE, SET_ALONE, GET, SET, GET_ASYNC);
        return new Plan(false, 5, ALL, 3000, 5, 1000, all, VALUES);
    }
}
