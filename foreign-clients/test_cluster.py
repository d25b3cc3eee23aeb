"""A cluster through redis-py, in RESP2 and RESP3, and redis-cli -c; cluster_clients.py has the nodes."""

import contextlib
import os
import socket
import subprocess
import threading

import pytest
import redis

from servers import wait_until

NODES = [node.rsplit(":", 1) for node in os.environ["CLUSTER_NODES"].split(",")]
STAGE = os.environ["CLUSTER_STAGE"].rsplit(":", 1)
KEYS = 1000


class RedisPy:
    """redis-py's client of a cluster, with pipelines for batches."""

    def __init__(self, protocol):
        nodes = [redis.cluster.ClusterNode(host, int(port)) for host, port in NODES]
        self.client = redis.RedisCluster(startup_nodes=nodes, protocol=protocol, decode_responses=True)

    def set(self, key, value):
        self.client.set(key, value)

    def set_each(self, keys, value):
        for key in keys:
            self.set(key, value)

    def get_each(self, keys):
        return [self.client.get(key) for key in keys]

    def set_all(self, keys, value):
        pipe = self.client.pipeline()
        for key in keys:
            pipe.set(key, value)
        pipe.execute()

    def get_all(self, keys):
        pipe = self.client.pipeline()
        for key in keys:
            pipe.get(key)
        return pipe.execute()


class RedisCli:
    """redis-cli -c, a process for each batch, which it goes through one by one."""

    def set(self, key, value):
        self.set_each([key], value)

    def set_each(self, keys, value):
        replies = self.run(f"set {key} {value}" for key in keys)
        assert replies == ["OK"] * len(keys), replies

    def get_each(self, keys):
        return self.run(f"get {key}" for key in keys)

    set_all, get_all = set_each, get_each

    def run(self, commands):
        host, port = NODES[0]
        program = ["redis-cli", "-c", "-h", host, "-p", port]
        done = subprocess.run(program, input="\n".join(commands), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [line for line in done.stdout.splitlines() if not line.startswith("-> Redirected")]


CLIENTS = {
    "redis-py-2": lambda: RedisPy(2),
    "redis-py-3": lambda: RedisPy(3),
    "redis-cli": RedisCli,
}


@contextlib.contextmanager
def writing(client, keys):
    """Writes without a pause; some of it is stored."""
    over = threading.Event()
    stored = []

    def write():
        while not over.is_set():
            for key in keys:
                with contextlib.suppress(redis.RedisError, AssertionError):
                    client.set(key, "written")
                    stored.append(key)
                if over.is_set():
                    break

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
        # One answer that a dead node owes may take longer than the scene.
        wait_until("something is stored", lambda: stored)
    finally:
        over.set()
        thread.join()


def play(scene):
    """Has a scene happen; cluster_clients.py says which there are."""
    with socket.create_connection(STAGE) as connection:
        connection.sendall(f"{scene}\n".encode())
        assert connection.makefile().readline() == "done\n"


@pytest.mark.parametrize("name", CLIENTS)
def test_goes_on(name):
    client = CLIENTS[name]()
    keys = [f"{name}:{number}" for number in range(KEYS)]
    stores_and_finds_all(client, keys, "first")
    for scene in ("goes", "comes"):
        with writing(client, [f"written:{key}" for key in keys]):
            play(scene)
        stores_and_finds_all(client, keys, scene)
    for scene in ("dies", "returns"):
        with writing(client, [f"written:{key}" for key in keys]):
            play(scene)
        at_last_stores_and_finds_all(client, keys, scene)


def stores_and_finds_all(client, keys, value):
    one, other = keys[: KEYS // 2], keys[KEYS // 2 :]
    client.set_each(one, value)
    client.set_all(other, value)
    found = [*client.get_all(one), *client.get_each(other)]
    assert found.count(value) == KEYS


def at_last_stores_and_finds_all(client, keys, value):
    """What a client has of a dead node it may find out first."""
    problems = []

    def does_not_fail():
        try:
            stores_and_finds_all(client, keys, value)
            return True
        except redis.RedisError as problem:
            problems[:] = [problem]
            return False

    try:
        wait_until(f"no command fails after the scene {value}", does_not_fail)
    except TimeoutError as late:
        raise late from problems[0]
