package cellar.clients;

/** Where the server listens for Redis's protocol. */
final class RespServer {
    static final String HOST = "127.0.0.1";
    static final int PORT = Integer.getInteger("resp.port", 0);

    private RespServer() {}
}
