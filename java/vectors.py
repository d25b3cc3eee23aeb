#!/usr/bin/env python3
"""Writes the test vectors of the ring: the nodes to which libmemcached and twemproxy map keys.

It calls the shared library of libmemcached, and runs twemproxy (nutcracker) in front of servers
that only record the keys that they receive. One line for each key: case, key, host:port of its
node. cases.txt, beside the vectors, contains the nodes of each case.
"""

import ctypes
import pathlib
import socket
import subprocess
import tempfile
import threading
import time

FOLDER = pathlib.Path(__file__).resolve().parent / "client/src/test/resources/ring"
KEYS = [f"key-{i}" for i in range(400)] + [f"user:{i * 7919}:profile" for i in range(100)]

# Name of the case, then (port, weight, name) of each node, all on 127.0.0.1.
CASES = {
    "equal": [(21801, 1, ""), (21802, 1, ""), (21803, 1, "")],
    "weights": [(21801, 1, ""), (21802, 3, ""), (21803, 7, "")],
    "many": [(21801 + i, 1 + i % 3, "") for i in range(9)],
    "default-port": [(11211, 1, ""), (21802, 2, "")],
    "names": [(21801, 1, "alpha"), (21802, 2, "beta"), (21803, 1, "gamma")],
}

KETAMA_WEIGHTED = 16  # MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED


def libmemcached(nodes):
    library = ctypes.CDLL("libmemcached.so.11")
    library.memcached_create.restype = ctypes.c_void_p
    library.memcached_server_instance_by_position.restype = ctypes.c_void_p
    library.memcached_server_port.restype = ctypes.c_uint16
    memc = ctypes.c_void_p(library.memcached_create(None))
    assert library.memcached_behavior_set(memc, KETAMA_WEIGHTED, ctypes.c_uint64(1)) == 0
    for port, weight, _ in nodes:
        host = ctypes.c_char_p(b"127.0.0.1")
        added = library.memcached_server_add_with_weight(
            memc, host, ctypes.c_uint16(port), ctypes.c_uint32(weight)
        )
        assert added == 0
    for key in KEYS:
        index = library.memcached_generate_hash(memc, key.encode(), ctypes.c_size_t(len(key)))
        instance = library.memcached_server_instance_by_position(memc, ctypes.c_uint32(index))
        yield key, library.memcached_server_port(ctypes.c_void_p(instance))


class Recorder:
    """A server that stores nothing and records each key."""

    def __init__(self, port, placed):
        self.port, self.placed = port, placed
        self.door = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.door.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        lines = connection.makefile("rb")
        for line in lines:
            words = line.split()
            if words and words[0] == b"get":
                self.placed[words[1].decode()] = self.port
                connection.sendall(b"END\r\n")


def twemproxy(nodes):
    placed = {}
    recorders = [Recorder(port, placed) for port, _, _ in nodes]
    servers = "".join(f"   - 127.0.0.1:{p}:{w} {n}".rstrip() + "\n" for p, w, n in nodes)
    text = (
        "ring:\n  listen: 127.0.0.1:21899\n  hash: md5\n  distribution: ketama\n"
        "  auto_eject_hosts: false\n  servers:\n" + servers
    )
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(text)
        file.flush()
        command = ["nutcracker", "-c", file.name, "-s", "21898"]
        proxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            connection = connect(21899)
            for key in KEYS:
                connection.sendall(f"get {key}\r\n".encode())
                assert connection.recv(100) == b"END\r\n"
        finally:
            proxy.terminate()
            proxy.wait()
            for recorder in recorders:
                recorder.door.shutdown(socket.SHUT_RDWR)
                recorder.door.close()
    return [(key, placed[key]) for key in KEYS]


def connect(port):
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("nutcracker does not start")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "cases.txt", "w") as file:
        for case, nodes in CASES.items():
            for port, weight, name in nodes:
                file.write(f"{case} 127.0.0.1:{port}:{weight} {name}".rstrip() + "\n")
    for program, place in {"libmemcached": libmemcached, "twemproxy": twemproxy}.items():
        with open(FOLDER / f"{program}.txt", "w") as file:
            for case, nodes in CASES.items():
                if program == "libmemcached" and case == "names":
                    continue
                for key, port in place(nodes):
                    file.write(f"{case} {key} {port}\n")


if __name__ == "__main__":
    main()
