package cellar.clients;

import java.util.List;

/** What a test does with a client of a cluster: single commands, and batches of them. */
interface ClusterClient extends AutoCloseable {
    void set(String key, String value) throws Exception;

    String get(String key) throws Exception;

    void setAll(List<String> keys, String value) throws Exception;

    List<String> getAll(List<String> keys) throws Exception;

    @Override
    void close();
}
