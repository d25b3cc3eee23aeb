"""The suite `cluster`, its clients: three Cellars as one, and a node that leaves them and returns.

Each program has a cluster of its own, so that they run side by side. CLUSTER_NODES has the nodes' addresses of
Redis's protocol, CLUSTER_MEMCACHED those of memcached's, with commas between them. CLUSTER_STAGE is where a
program asks for the next scene: it connects, sends one of these words and a line's end, and is answered by a
line once that has happened and every node that lives knows of it:

  goes     the third node leaves the list
  comes    it stands there again
  dies     it is killed, and leaves the list a second later
  returns  it is started again, where it was, and stands in the list again

In each scene a client first writes without a pause, then stores and finds 1,000 keys, one by one and in
batches: what a program is like stands in test_cluster.py, and is the same in each language.
"""

import concurrent.futures
import contextlib
import socketserver
import threading
import time

from many_machines import knows
from servers import Server, free_port, wait_until

NAMES = "alpha", "beta", "gamma"
PROTOCOLS = "resp", "memcached", "http"
LEAVES = NAMES[-1]
DEAD_SECONDS = 1


def outcomes(binaries, folder, programs):
    """Runs programs side by side, each with its own cluster, and looks at the nodes' ends."""

    def run(name):
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(Cluster(binaries, place)) as cluster, stage(cluster) as address:
            given = cluster.variables | {"CLUSTER_STAGE": address}
            tests = list(programs[name](place, given))
            ends = {node: server.stop() for node, server in cluster.servers.items()}
        drained = "every node drains on SIGTERM and exits 0"
        return [*tests, (drained, "\n".join(filter(None, ends.values())) or None)]

    with concurrent.futures.ThreadPoolExecutor(len(programs)) as pool:
        for name, tests in zip(programs, pool.map(run, programs), strict=True):
            yield from ((f"{name}: {test}", problem) for test, problem in tests)


class Cluster:
    """Three nodes that read one list."""

    def __init__(self, binaries, folder):
        self.binary, self.folder = binaries / "cellar", folder
        self.ports = {name: {kind: free_port() for kind in PROTOCOLS} for name in NAMES}
        self.servers = {}
        self.write(NAMES)
        try:
            for name in NAMES:
                self.start(name)
        except Exception:
            self.close()
            raise

    @property
    def variables(self):
        def of(kind):
            return ",".join(f"127.0.0.1:{self.ports[name][kind]}" for name in NAMES)

        return {"CLUSTER_NODES": of("resp"), "CLUSTER_MEMCACHED": of("memcached")}

    def start(self, name):
        places = " ".join(f"--{kind} 127.0.0.1:{port}" for kind, port in self.ports[name].items())
        command = f"{self.binary} --cluster file:{self.folder}/nodes --node {name} {places}"
        self.servers[name] = Server(f"{command} --memory 64MiB", self.folder / f"{name}.log")

    def kill(self, name):
        process = self.servers.pop(name).process
        process.kill()
        process.wait()

    def write(self, names):
        """Puts a list of these nodes in the old one's place."""
        lines = []
        for name in names:
            places = (f"{kind}=127.0.0.1:{port}" for kind, port in self.ports[name].items())
            lines.append(" ".join([name, *places]) + "\n")
        fresh = self.folder / "fresh"
        fresh.write_text("".join(lines))
        fresh.rename(self.folder / "nodes")

    def play(self, scene):
        """Has a scene happen; whether all nodes know of it."""
        if scene == "dies":
            self.kill(LEAVES)
            # paced: meanwhile clients meet a node that is dead and still in the list.
            time.sleep(DEAD_SECONDS)
        elif scene == "returns":
            self.start(LEAVES)
        stay = NAMES[:-1] if scene in ("goes", "dies") else NAMES
        self.write(stay)

        def is_known():
            return all(self.knows(name, len(stay)) for name in self.servers)

        try:
            return wait_until(f"every node knows of {len(stay)} nodes", is_known)
        except TimeoutError:
            return False

    def knows(self, name, nodes):
        return knows(self.ports[name]["resp"], nodes)

    def close(self):
        for name in list(self.servers):
            self.kill(name)


@contextlib.contextmanager
def stage(cluster):
    """Plays the scenes that a program asks for; yields where."""

    class Asked(socketserver.StreamRequestHandler):
        def handle(self):
            done = cluster.play(self.rfile.readline().decode().strip())
            self.wfile.write(b"done\n" if done else b"the nodes do not know it\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Asked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
