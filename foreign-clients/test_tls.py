"""Cellar over TLS through Python's clients, redis-cli, curl and memcached-tool.

foreign-clients/run starts the servers; encrypted.py says what stands in the folder TLS_FOLDER.
"""

import concurrent.futures
import os
import pathlib
import socket
import ssl
import subprocess

import pylibmc
import pymemcache
import pytest
import redis
import requests
from redis.backoff import NoBackoff
from redis.retry import Retry
from requests.adapters import HTTPAdapter

import encrypted
from servers import wait_until

FOLDER = pathlib.Path(os.environ["TLS_FOLDER"])
CONNECTIONS = {row["name"]: row for row in encrypted.read_connections(FOLDER)}
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
# Around the sizes of a record (16 KiB) and of what memcached's protocol takes at most.
SIZES = [1, 2, 1000, 16_383, 16_384, 16_385, 100_000, 1 << 20]
POOL = 4
# A busy machine may take long for an answer.
SECONDS = 60
MEMCACHED_TOOL = "/usr/share/memcached/scripts/memcached-tool"
# What a server answers that takes no client without a certificate.
UNWELCOME = (redis.ConnectionError, OSError, pymemcache.MemcacheError)


@pytest.fixture(params=CONNECTIONS)
def row(request):
    return CONNECTIONS[request.param]


@pytest.fixture(params=[name for name, row in CONNECTIONS.items() if not row["user"]])
def nameless(request):
    """A row for clients of memcached's protocol that cannot say who they are."""
    return CONNECTIONS[request.param]


@pytest.fixture(params=VERSIONS, ids=lambda version: version.name)
def version(request):
    return request.param


def trust(row, version=None, authority="ca"):
    """What a client knows who connects in this way."""
    context = ssl.create_default_context(cafile=FOLDER / f"{authority}.pem")
    if row["certificate"]:
        name = FOLDER / row["certificate"]
        context.load_cert_chain(name.with_suffix(".pem"), name.with_suffix(".key"))
    if version:
        context.minimum_version = context.maximum_version = version
    return context


def value(size):
    return bytes((size + place) % 251 for place in range(min(size, 251))) * (size // 251 + 1)


def by_several(work):
    """Does the work on several threads, each with a number of its own."""
    with concurrent.futures.ThreadPoolExecutor(POOL) as pool:
        list(pool.map(work, range(POOL)))


def open_redis(row, authority="ca", certificate=True, **options):
    place = {"host": "localhost", "port": int(row["resp"])}
    login = {"username": row["user"], "password": row["password"]}
    known = {"ssl": True, "ssl_check_hostname": True}
    known["ssl_ca_certs"] = str(FOLDER / f"{authority}.pem")
    if certificate and row["certificate"]:
        known["ssl_certfile"] = str(FOLDER / f"{row['certificate']}.pem")
        known["ssl_keyfile"] = str(FOLDER / f"{row['certificate']}.key")
    # A refusal is tried again and again otherwise.
    patience = {"socket_timeout": SECONDS, "retry": Retry(NoBackoff(), 0)}
    return redis.Redis(**place, **login, **known, **patience, **options)


def open_memcached(row, version=None, authority="ca", kind=pymemcache.Client, **options):
    context = trust(row, version, authority)
    server = ("localhost", int(row["memcached"]))
    return kind(server, tls_context=context, timeout=SECONDS, connect_timeout=SECONDS, **options)


class WithContext(HTTPAdapter):
    """Gives the connections of requests a context."""

    def __init__(self, context):
        self.context = context
        super().__init__(pool_maxsize=POOL)

    def init_poolmanager(self, *arguments, **options):
        super().init_poolmanager(*arguments, ssl_context=self.context, **options)


def open_http(row, version=None, authority="ca"):
    session = requests.Session()
    session.trust_env = False
    session.verify = str(FOLDER / f"{authority}.pem")
    session.mount("https://", WithContext(trust(row, version, authority)))
    if row["user"]:
        session.auth = (row["user"], row["password"])
    if row["token"]:
        session.headers["Authorization"] = f"Bearer {row['token']}"
    return session, f"https://localhost:{row['http']}/v1/cache"


def serial_of(row):
    """The number of the certificate that the server shows."""
    address = ("localhost", int(row["resp"]))
    with socket.create_connection(address, timeout=SECONDS) as plain:
        with trust(row).wrap_socket(plain, server_hostname="localhost") as stream:
            return stream.getpeercert()["serialNumber"]


def wait_for_another_certificate(row):
    first = serial_of(row)
    wait_until("the server shows another certificate", lambda: serial_of(row) != first)


def test_redis_py_has_a_pool_and_pipelines(row):
    client = open_redis(row, max_connections=POOL, ssl_min_version=VERSIONS[1])

    def work(number):
        for size in SIZES:
            assert client.set(f"redis-{number}-{size}", value(size))
            assert client.get(f"redis-{number}-{size}") == value(size)

    by_several(work)
    pipe = client.pipeline(transaction=False)
    for number in range(1000):
        pipe.set(f"p{number}", number)
        pipe.get(f"p{number}")
    assert pipe.execute()[1::2] == [str(number).encode() for number in range(1000)]


def test_redis_py_hears_messages(row):
    client = open_redis(row, protocol=3)
    with client.pubsub() as listener:
        listener.subscribe("news")
        assert listener.get_message(timeout=SECONDS)["type"] == "subscribe"
        assert client.publish("news", value(100_000)) == 1
        assert listener.get_message(timeout=SECONDS)["data"] == value(100_000)


def test_redis_py_refuses_a_certificate_of_another_authority(row):
    with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
        open_redis(row, authority="other").ping()


def test_redis_py_comes_in_with_a_certificate_alone():
    row = CONNECTIONS["mutual"]
    assert open_redis(row).client_info()["identity"] == "alice"
    with pytest.raises(UNWELCOME):
        open_redis(row, certificate=False).ping()
    with pytest.raises(UNWELCOME):
        open_redis({**row, "certificate": "stranger"}).ping()


def test_pymemcache_has_a_pool(nameless, version):
    client = open_memcached(nameless, version, kind=pymemcache.PooledClient, max_pool_size=POOL)

    def work(number):
        for size in SIZES:
            assert client.set(f"memcached-{number}-{size}", value(size)[:size], noreply=False)
            assert client.get(f"memcached-{number}-{size}") == value(size)[:size]

    by_several(work)
    many = {f"m{number}": b"x" * number for number in range(500)}
    assert client.set_many(many, noreply=False) == []
    assert client.get_many(many) == many


def test_pymemcache_refuses_a_certificate_of_another_authority(nameless):
    with pytest.raises(ssl.SSLCertVerificationError):
        open_memcached(nameless, authority="other").version()


def test_pymemcache_comes_in_with_a_certificate_alone(version):
    row = CONNECTIONS["mutual"]
    assert open_memcached(row, version).version()
    for certificate in (None, "stranger"):
        with pytest.raises(UNWELCOME):
            open_memcached({**row, "certificate": certificate}, version).version()


def test_requests_stores_and_reads(row, version):
    session, url = open_http(row, version)

    def work(number):
        for size in SIZES:
            key = f"{url}/http-{number}-{size}"
            assert session.put(key, value(size), timeout=SECONDS).ok
            assert session.get(key, timeout=SECONDS).content == value(size)

    by_several(work)


def test_requests_refuses_a_certificate_of_another_authority(row):
    session, url = open_http(row, authority="other")
    with pytest.raises(requests.exceptions.SSLError, match="certificate verify failed"):
        session.get(f"{url}/k", timeout=SECONDS)


def test_requests_comes_in_with_a_certificate_alone(version):
    session, url = open_http({**CONNECTIONS["mutual"], "certificate": None}, version)
    with pytest.raises(requests.exceptions.ConnectionError):
        session.get(f"{url}/k", timeout=SECONDS)


@pytest.mark.parametrize("protocol", ["memcached", "resp", "http"])
@pytest.mark.parametrize("name", ["passwords", "mutual"])
def test_a_session_goes_on(name, protocol, version):
    row = CONNECTIONS[name]
    context, session = trust(row, version), None
    requests_and_replies = {
        "memcached": (b"mn\r\n", b"MN\r\n"),
        "resp": (b"HELLO 9\r\n", b"-NOPROTO"),
        "http": (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200"),
    }
    request, reply = requests_and_replies[protocol]
    for attempt in range(3):
        plain = socket.create_connection(("localhost", int(row[protocol])), timeout=SECONDS)
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as stream:
            stream.sendall(request)
            assert stream.recv(4096).startswith(reply)
            assert stream.session_reused == (attempt > 0)
            session = stream.session


def test_connections_outlive_their_certificate():
    row = CONNECTIONS["changing"]
    clients = [open_redis(row), open_memcached(row), open_http(row)]
    store, cache, (session, url) = clients
    numbers = []
    for turn in range(3):
        assert store.set("turn", turn) and int(store.get("turn")) == turn
        assert cache.set("turn", str(turn), noreply=False) and int(cache.get("turn")) == turn
        assert session.put(f"{url}/turn", str(turn), timeout=SECONDS).ok
        numbers.append(store.client_id())
        wait_for_another_certificate(row)
    assert len(set(numbers)) == 1


def run(*command, said=""):
    command = [str(part) for part in command]
    done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=SECONDS)
    return done.returncode, done.stdout + done.stderr


def redis_cli(row, *arguments, authority="ca", certificate=True, said=""):
    shown = ["--cert", FOLDER / f"{row['certificate']}.pem"] if row["certificate"] else []
    shown += ["--key", FOLDER / f"{row['certificate']}.key"] if row["certificate"] else []
    user = ["--user", row["user"]] if row["user"] else []
    password = ["--pass", row["password"], "--no-auth-warning"] if row["password"] else []
    place = ["--tls", "--cacert", FOLDER / f"{authority}.pem", "-h", "localhost", "-p", row["resp"]]
    known = [*user, *password, *(shown if certificate else [])]
    return run("redis-cli", *place, *known, *arguments, said=said)


def test_redis_cli_sends_commands_and_pipes(row):
    assert redis_cli(row, "set", "k", "value") == (0, "OK\n")
    assert redis_cli(row, "-3", "get", "k") == (0, "value\n")
    many = "".join(f"SET pipe-{number} {'x' * 100}\r\n" for number in range(5000))
    code, output = redis_cli(row, "--pipe", said=many)
    assert code == 0 and "errors: 0, replies: 5000" in output
    code, output = redis_cli(row, "--tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256", "ping")
    assert (code, output) == (0, "PONG\n")


def test_redis_cli_refuses_and_is_refused(row):
    code, output = redis_cli(row, "ping", authority="other")
    assert code != 0 and "certificate verify failed" in output
    if row["certificate"]:
        code, output = redis_cli(row, "ping", certificate=False)
        assert "PONG" not in output and output


def curl(row, path, *arguments, authority="ca", certificate=True):
    name = row["certificate"] if certificate else None
    shown = ["--cert", FOLDER / f"{name}.pem", "--key", FOLDER / f"{name}.key"] if name else []
    token = ["-H", f"Authorization: Bearer {row['token']}"] if row["token"] else []
    user = ["--user", f"{row['user']}:{row['password']}"] if row["user"] else []
    url = f"https://localhost:{row['http']}{path}"
    known = ["--cacert", FOLDER / f"{authority}.pem", *shown, *user, *token]
    return run("curl", "-sS", "--noproxy", "*", *known, *arguments, url)


@pytest.mark.parametrize("flags", [["--tls-max", "1.2"], ["--tlsv1.3"]], ids=["1.2", "1.3"])
def test_curl_stores_and_reads(row, flags, tmp_path):
    for size in SIZES:
        (tmp_path / "sent").write_bytes(value(size))
        sent = ["-f", "-T", tmp_path / "sent"]
        assert curl(row, f"/v1/cache/curl-{size}", *flags, *sent)[0] == 0
        assert curl(row, f"/v1/cache/curl-{size}", *flags, "-f", "-o", tmp_path / "got")[0] == 0
        assert (tmp_path / "got").read_bytes() == value(size)


def test_curl_refuses_and_is_refused(row):
    # 60: the server's certificate cannot be verified; 35 and 56: a handshake or a reply failed;
    # 98: the server asks for a certificate.
    assert curl(row, "/healthz", authority="other")[0] == 60
    for flags in (["--tls-max", "1.2"], ["--tlsv1.3"]):
        assert curl(row, "/healthz", *flags) == (0, "ok\n")
        if row["certificate"]:
            assert curl(row, "/healthz", *flags, certificate=False)[0] in (35, 56, 98)
    assert curl(row, "/healthz", "--ciphers", "ALL@SECLEVEL=0", "--tls-max", "1.1")[0] == 35


def test_memcached_s_own_programs_have_the_socket_file(nameless):
    """memcached-tool and libmemcached know no TLS; such programs run beside the server."""
    path = FOLDER / f"{nameless['name']}.sock"
    code, output = run("perl", MEMCACHED_TOOL, path, "stats")
    assert code == 0 and "curr_connections" in output
    client = pylibmc.Client([str(path)])
    assert client.set("libmemcached", "value") and client.get("libmemcached") == "value"


def test_s_client_pipes_memcached_s_commands(row):
    name = row["certificate"]
    shown = ["-cert", FOLDER / f"{name}.pem", "-key", FOLDER / f"{name}.key"] if name else []
    place = ["-connect", f"localhost:{row['memcached']}", "-CAfile", FOLDER / "ca.pem"]
    flags = ["-verify_return_error", "-verify_hostname", "localhost", "-quiet", *shown]
    login = f"{row['user']} {row['password']}"
    hello = f"set login 0 0 {len(login)}\r\n{login}\r\n" if row["user"] else ""
    said = f"{hello}set piped 5 0 5\r\nvalue\r\nget piped\r\nquit\r\n"
    code, output = run("openssl", "s_client", *place, *flags, said=said)
    assert "STORED\nVALUE piped 5 5\nvalue\nEND\n" in output.replace("\r", ""), output
