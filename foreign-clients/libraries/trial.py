"""One library's program on both servers, and what is to be said of it."""

import concurrent.futures
import os
import pathlib
import re
import socket
import subprocess
import tempfile

from servers import Server, output_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = TARGET / os.environ.get("BINARIES", "release") / "cellar"
CELLAR = (
    f"{BINARY} --memcached 127.0.0.1:0 --resp 127.0.0.1:0 --http 127.0.0.1:0 --memory 64MiB"
)
REDIS = "redis-server --save '' --appendonly no --bind 127.0.0.1 --port {port}"
MEMCACHED = "memcached -u nobody -l 127.0.0.1 -U 0 -p {port}"
PROGRAM_SECONDS_MAX = 40
# What a run of a program shows besides its lines, and no user wants to see.
NOISE = re.compile(r"^\s*(at |File |Traceback|\^|\.\.\.|\d+:|#\d|from |goroutine|note: |$)")


class Servers:
    """Cellar, redis-server and memcached, on free ports."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="cellar-libraries-")
        self.running = {}
        try:
            commands = {"cellar": CELLAR, "redis": REDIS, "memcached": MEMCACHED}
            for name, command in commands.items():
                log = pathlib.Path(self.folder.name) / f"{name}.log"
                self.running[name] = Server(f"env -C {self.folder.name} {command}", log)
        except Exception:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.running.values():
            server.stop()
        self.folder.cleanup()

    def ports(self, protocol):
        """Cellar's port and the other server's, for a protocol; both servers emptied."""
        cellar, other = self.running["cellar"], self.running[protocol]
        resp = protocol == "redis"
        found = (cellar.resp_port if resp else cellar.port, other.port)
        for port in found:
            emptied(port, b"FLUSHALL\r\n" if resp else b"flush_all\r\n")
        if resp:
            redis_cli(other.port, "config", "resetstat")
        return found

    def missing(self, protocol):
        """The commands that a program has sent to redis-server, scripts too, and Cellar lacks."""
        if protocol != "redis":
            return []
        used = redis_cli(self.running["redis"].port, "info", "commandstats")
        names = re.findall(r"^cmdstat_([^:|]+)\S*:calls=[1-9]", used, re.MULTILINE)
        known = redis_cli(self.running["cellar"].resp_port, "command", "list").lower().split()
        return sorted({name.upper() for name in names if name not in known})


def redis_cli(port, *command):
    """What redis-cli prints of a command's answer."""
    return output_of(["redis-cli", "-p", port, *command], timeout=20)[1]


def emptied(port, command):
    """Sends the command that removes all."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(command)
        answer = connection.recv(100)
    if b"OK" not in answer:
        raise RuntimeError(f"the server on port {port} is not emptied: {answer!r}")


def row(language, library, servers, shown=False):
    """The row of results of one library."""
    made = {
        "library": library["name"],
        "package": library.get("package", library["name"]),
        "version": language.pins().get(library.get("package", library["name"]), "?"),
        "protocol": library["protocol"],
        "tries": library["tries"],
    }
    ours, theirs = runs(language, library, servers, {}, shown)
    if theirs.code != 0:
        return made | {"outcome": "broken", "error": f"on {library['protocol']}: {theirs.end()}"}
    if ours.same(theirs):
        return made | {"outcome": "works"} | noted(library, "note")
    if "setting" in library:
        again = runs(language, library, servers, {"SETTING": "1"}, shown)
        if again[1].code == 0 and again[0].same(again[1]):
            told = {"setting": library["setting"], "error": ours.told(theirs)}
            return made | {"outcome": "setting"} | told
    reason = reason_of(ours, library, servers) or library.get("fails")
    told = {"reason": reason} if reason else {}
    return made | {"outcome": "fails", "error": ours.told(theirs)} | told


def noted(library, key):
    return {key: library[key]} if key in library else {}


def reason_of(run, library, servers):
    """What Cellar lacks: commands that the other server was sent, libraries of its scripts."""
    missing = [f"`{name}`" for name in servers.missing(library["protocol"])]
    missing += re.findall(r"this server has no (library '\w+')", run.errors + run.output)
    return f"needs {', '.join(dict.fromkeys(missing))}" if missing else None


def runs(language, library, servers, variables, shown):
    """The program's runs on Cellar and on the other server, side by side."""
    command, more = language.command(library)
    ports = servers.ports(library["protocol"])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = list(
            pool.map(lambda port: Run(command, more | variables, port, language.folder), ports)
        )
    if shown:
        for name, run in zip(("Cellar", library["protocol"]), both):
            print(f"--- {library['name']} on {name}: {run.code}\n{run.output}{run.errors}")
    return both


class Run:
    """What a program has printed, and how it ended."""

    def __init__(self, command, variables, port, folder):
        given = {
            "HOST": "127.0.0.1",
            "PORT": str(port),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        try:
            done = subprocess.run(
                [str(part) for part in command],
                env=os.environ | given | variables,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROGRAM_SECONDS_MAX,
            )
            self.code, output, errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            self.code, output, errors = "late", late.stdout or b"", late.stderr or b""
        address = f"127.0.0.1:{port}"
        self.output = output.decode(errors="replace").replace(address, "ADDRESS")
        self.errors = errors.decode(errors="replace").replace(address, "ADDRESS")

    def same(self, other):
        """Whether another run has printed the same and ended in the same way."""
        return (self.code, self.output) == (other.code, other.output)

    def told(self, other):
        """What a user sees first that is otherwise than in another run."""
        lines = self.output.splitlines()
        theirs = other.output.splitlines()
        for ours, good in zip(lines, theirs):
            if ours != good:
                return short(f"{ours}, not {good}" if "rror" not in ours else ours)
        return self.end()

    def end(self):
        """The line that names the error, of all that was printed at last."""
        if self.code == "late" and not self.errors.strip():
            return "waits without end"
        lines = [line for line in self.errors.splitlines() if not NOISE.match(line)]
        lines = lines or self.output.splitlines() or ["nothing is printed"]
        named = [line for line in lines if re.search(r"ERR |unknown|Error|Exception|panic", line)]
        best = [line for line in named if "unknown command" in line] or named[-1:]
        return short((best or lines[-1:])[0])


def short(line):
    """A line that fits in a table."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
    line = re.sub(r"^\S+:\d+:in `[^']*': |^\w, \[.*?\]\s+WARN -- : ", "", line)
    line = re.sub(r"(unknown command '\w+'), with args.*", r"\1 ...", line)
    line = re.sub(r", \{:host=>.*| ?script: [0-9a-f]{40}.*|, on @user_script.*", "", line)
    return line if len(line) <= 160 else line[:157] + "..."
