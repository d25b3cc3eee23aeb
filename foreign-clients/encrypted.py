"""The suite `tls`: servers with certificates, and the clients that are tried with them.

Each client reads the same two things in the folder that TLS_FOLDER names: certificates, and
`connections.tsv`, the servers and what each asks for. A row more there is a way of connecting more
for every client; a column that is `-` asks for nothing.

  users      a user's name and password, in each protocol
  passwords  a password of Redis's protocol, a token of HTTP; certificates for ECDSA and RSA
  mutual     a certificate from each client
  changing   a password; its certificate is another one every half second

`ca.pem` has signed all that is good, `other.pem` nothing. `client` is a client's certificate, and
`stranger` one that `other` has signed.
"""

import contextlib
import itertools
import pathlib
import re
import signal
import tempfile
import threading

import certificates
import handshakes
from servers import Server, output_of

NAMES = ["DNS:localhost", "IP:127.0.0.1"]
PASSWORD = "a-password-of-the-suite"
TOKEN = "a-token-of-the-suite"
USER = "bob"
# Name, password and token of the servers that ask for others than a password and a token.
GUARDS = {"users": [USER, PASSWORD, "-"], "mutual": ["-", "-", "-"]}
CHANGE_SECONDS = 0.5
COLUMNS = "name memcached resp http figures user password token certificate".split()


def outcomes(binaries, clients):
    """Starts the servers, runs each of the clients' suites, and looks at the servers' ends."""
    # Not below the checkout: the path of a socket file has at most 107 bytes.
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="cellar-tls-", ignore_cleanup_errors=True)
        folder = pathlib.Path(stack.enter_context(made))
        authority = prepare(folder)
        flags = started_with(folder, users(binaries, folder))
        servers = {name: start(binaries, folder, name, flags[name]) for name in flags}
        for server in servers.values():
            stack.callback(server.process.kill)
        write_connections(folder, servers)
        with changes(authority, servers["changing"]):
            yield from handshakes.outcomes(servers["passwords"].port, authority.path("pem"))
            for client, tests in clients.items():
                for name, problem in tests({"TLS_FOLDER": str(folder)}):
                    yield f"{client}: {name}", problem
        for name, server in servers.items():
            yield f"the server {name} drains on SIGTERM and exits 0", server.stop()


def prepare(folder):
    """Makes all certificates."""
    authority = certificates.Authority(folder, "ca")
    other = certificates.Authority(folder, "other")
    for kind in ("ec", "rsa"):
        authority.issue(f"server-{kind}", "localhost", kind, NAMES)
    for turn in (0, 1):
        authority.issue(f"turn-{turn}", "localhost", "ec", NAMES)
    for signer, name in ((authority, "client"), (other, "stranger")):
        certificates.as_pkcs12(*signer.issue(name, "alice"), folder / f"{name}.p12")
    certificates.combine(
        authority.path("pem", "turn-0"), authority.path("key", "turn-0"), folder / "changing.pem"
    )
    return authority


def users(binaries, folder):
    """Writes a file with one user, who may do all."""
    command = [f"{binaries}/cellar", "hash-password"]
    code, printed = output_of(command, input=PASSWORD)
    if code != 0:
        raise RuntimeError(f"hash-password: {printed}")
    path = folder / "users.toml"
    path.touch(0o600)
    row = f'name = "{USER}"\npasswords = ["{printed.strip()}"]\nrole = "admin"\n'
    path.write_text(f"[[user]]\n{row}")
    return path


def started_with(folder, users_file):
    """The servers' flags."""

    def keys(*names):
        ends = {"cert": "pem", "key": "key"}
        return " ".join(
            f"--tls-{flag} {','.join(f'{folder}/{name}.{end}' for name in names)}"
            for flag, end in ends.items()
        )

    guarded = f"--password {PASSWORD} --http-token {TOKEN}"
    combined = f"{folder}/changing.pem"
    return {
        "users": f"{keys('server-ec')} --users {users_file}",
        "passwords": f"{keys('server-ec', 'server-rsa')} {guarded}",
        "mutual": f"{keys('server-ec')} --tls-client-ca {folder}/ca.pem",
        "changing": f"--tls-cert {combined} --tls-key {combined} {guarded}",
    }


def start(binaries, folder, name, flags):
    """Starts a server; beside TLS it has a socket file, and a plain port for its figures."""
    addresses = (
        f"--memcached unix:{folder}/{name}.sock,tls:127.0.0.1:0 --resp tls:127.0.0.1:0"
        " --http 127.0.0.1:0,tls:127.0.0.1:0 --memory 64MiB"
    )
    return Server(f"{binaries}/cellar {addresses} {flags}", folder / f"{name}.log")


def write_connections(folder, servers):
    """Writes what clients read: the ways to connect."""
    rows = [COLUMNS]
    for name, server in servers.items():
        figures = re.search(r" http=127\.0\.0\.1:(\d+)", server.output()).group(1)
        ports = [server.port, server.resp_port, server.http_port, figures]
        guards = GUARDS.get(name, ["-", PASSWORD, TOKEN])
        asked = "client" if name == "mutual" else "-"
        rows.append([name, *map(str, ports), *guards, asked])
    text = "".join("\t".join(row) + "\n" for row in rows)
    (folder / "connections.tsv").write_text(text)


def read_connections(folder):
    """The rows of the table, each as a dictionary; what is `-` there is None."""
    header, *rows = (folder / "connections.tsv").read_text().splitlines()
    names = header.split("\t")
    for row in rows:
        fields = [None if field == "-" else field for field in row.split("\t")]
        yield dict(zip(names, fields, strict=True))


@contextlib.contextmanager
def changes(authority, server):
    """Gives the server another certificate again and again, and tells it so by SIGHUP."""
    over = threading.Event()

    def change():
        for turn in itertools.cycle((1, 0)):
            if over.wait(CHANGE_SECONDS):
                return
            name = f"turn-{turn}"
            pair = (authority.path("pem", name), authority.path("key", name))
            certificates.combine(*pair, authority.folder / "changing.pem")
            server.process.send_signal(signal.SIGHUP)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
