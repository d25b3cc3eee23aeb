"""A proxy that records both directions of each connection."""

import socket
import threading

CHUNK_BYTES = 65536
# A bound only ends what would wait for ever.
JOIN_SECONDS_MAX = 30


class Recorder:
    """Listens on one port and passes each connection on to the server that is set.

    The port stays the same for all servers, because clients may send their own configuration.
    """

    def __init__(self):
        self.upstream = None
        self.connections = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def begin(self, upstream):
        """Passes new connections to this port, and forgets what was recorded."""
        with self.lock:
            self.upstream = upstream
            self.connections = []

    def end(self):
        """Closes the connections that are left; returns the exchanges of each, in their order."""
        with self.lock:
            found, self.upstream = self.connections, None
        return [connection.end() for connection in found]

    def close(self):
        # This wakes the thread that accepts.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join(JOIN_SECONDS_MAX)
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                upstream = self.upstream
                if upstream is None:
                    client.close()
                    continue
                try:
                    self.connections.append(Connection(client, upstream))
                except OSError:
                    client.close()


class Connection:
    """One connection: what the client sent and what the server answered."""

    def __init__(self, client, upstream):
        self.client = client
        self.server = socket.create_connection(("127.0.0.1", upstream), timeout=10)
        for end in (self.client, self.server):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lock = threading.Lock()
        # Pairs of what was sent and what was answered to it.
        self.exchanges = []
        self.threads = [
            threading.Thread(target=self.pump, args=pair, daemon=True)
            for pair in ((self.client, self.server, 0), (self.server, self.client, 1))
        ]
        for thread in self.threads:
            thread.start()

    def pump(self, source, target, direction):
        """Passes bytes on until one side closes."""
        try:
            while chunk := source.recv(CHUNK_BYTES):
                self.note(direction, chunk)
                target.sendall(chunk)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RD if end is source else socket.SHUT_WR)
            except OSError:
                pass

    def note(self, direction, chunk):
        with self.lock:
            # A request behind an answer begins a new exchange.
            if not self.exchanges or (direction == 0 and self.exchanges[-1][1]):
                self.exchanges.append([b"", b""])
            self.exchanges[-1][direction] += chunk

    def end(self):
        """Closes both sides; returns the exchanges."""
        # A client has left when its row ends; the server may still answer to what it sent at last.
        for thread in self.threads:
            thread.join(JOIN_SECONDS_MAX)
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(JOIN_SECONDS_MAX)
        self.client.close()
        self.server.close()
        with self.lock:
            return [tuple(pair) for pair in self.exchanges]
