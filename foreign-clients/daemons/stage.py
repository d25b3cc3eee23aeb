"""What a row needs while it runs: a folder, ports, programs that are started and stopped."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request

from servers import accepts, free_port, wait_until

# Bounds only end what would wait for ever: a busy machine may take long for what is right.
COMMAND_SECONDS_MAX = 600
READY_SECONDS_MAX = 300
STOP_SECONDS_MAX = 30
ROWS = []


class Failed(RuntimeError):
    """A program of a row ended in a way that it does not have to."""


class Row:
    """One daemon or tool: what is run, and what is said about it on the page."""

    def __init__(self, run, name, packages, protocol, tried, **more):
        self.run, self.name, self.packages = run, name, packages.split()
        # `memcached`, `redis`, or both with a space between.
        self.protocols, self.tried = protocol.split(), tried
        # The lines of configuration that a user writes.
        self.configuration = more.pop("configuration")
        # What is needed for Cellar and not for the other server.
        self.setting = more.pop("setting", None)
        # An answer that differs and does no harm: Cellar's, the other server's, what to say of it.
        self.known = more.pop("known", None)
        # Whether a timer sends the same again and again: then each exchange counts once.
        self.polls = more.pop("polls", False)
        # More pairs of pattern and value than transcript.py has.
        self.replaced = more.pop("replaced", ())
        if more:
            raise TypeError(f"{name}: unknown {more}")


def row(name, packages, protocol, tried, **more):
    """Puts a function into the table; the version on the page is the first package's."""

    def put(run):
        ROWS.append(Row(run, name, packages, protocol, tried, **more))
        return run

    return put


class Stage:
    """The place of one run of a row; the same folder and ports on each server."""

    # Hashes of Perl have one order in each run.
    HASH_ORDER = {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}

    def __init__(self, folder, ports):
        self.folder, self.ports = pathlib.Path(folder), ports
        self.running = []
        # The servers' own ports, by protocol, past the recorder.
        self.direct = {}

    def __getattr__(self, name):
        """The ports of the servers by protocol, as `stage.redis`; others are free ports."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.ports:
            self.ports[name] = free_port()
        return self.ports[name]

    def clear(self):
        """Empties the folder; every user may read it, for some daemons give up their rights."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)

    def filled(self, text):
        """A text in which @folder@ is the folder, and @name@ a port."""
        text = text.replace("@folder@", str(self.folder))
        return re.sub(r"@([a-z_]+)@", lambda found: str(getattr(self, found.group(1))), text)

    def write(self, name, text, mode=0o644):
        """Writes a file in the folder; returns its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.filled(text))
        path.chmod(mode)
        return str(path)

    def path(self, name):
        return str(self.folder / name)

    def run(self, command, text="", codes=(0,), environment=None):
        """Runs a command, of which words are split at spaces; returns all it printed."""
        words = command if isinstance(command, list) else command.split()
        words = [self.filled(str(word)) for word in words]
        done = subprocess.run(
            words,
            input=self.filled(text),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=self.folder,
            timeout=COMMAND_SECONDS_MAX,
            env=os.environ | {"HOME": str(self.folder), "LC_ALL": "C.UTF-8"} | (environment or {}),
        )
        if codes and done.returncode not in codes:
            raise Failed(f"{' '.join(words)[:200]}: exit {done.returncode}: {done.stdout[-2000:]}")
        return done.stdout

    def start(self, command, ready, log="daemon.log", environment=None):
        """Starts a daemon in the foreground; returns when `ready` holds.

        `ready` is a port that accepts, or a regular expression of the log.
        """
        words = command if isinstance(command, list) else command.split()
        words = [self.filled(str(word)) for word in words]
        path = self.folder / log
        with open(path, "w") as file:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=self.folder,
                env=os.environ | {"HOME": str(self.folder)} | (environment or {}),
                start_new_session=True,
            )
        self.running.append(process)

        def is_ready():
            if process.poll() is not None:
                raise Failed(f"{words[0]} left with {process.returncode}: {self.logged(log)}")
            if isinstance(ready, int):
                return accepts(ready)
            return re.search(ready, self.logged(log))

        try:
            wait_until(f"{words[0]} is ready", is_ready, READY_SECONDS_MAX)
        except TimeoutError as late:
            raise Failed(f"{late}: {self.logged(log)[-2000:]}") from late
        return process

    def alive(self):
        """Fails if a daemon has left by itself."""
        for process in self.running:
            if process.poll() is not None:
                raise Failed(f"a daemon left with {process.returncode}: {self.logged()[-2000:]}")

    def logged(self, log="daemon.log"):
        path = self.folder / log
        return path.read_text(errors="replace") if path.exists() else ""

    def await_log(self, pattern, log="daemon.log"):
        """Waits until the log has a match; returns it."""
        found = lambda: re.search(pattern, self.logged(log))  # noqa: E731
        try:
            return wait_until(f"{log} has /{pattern}/", found, READY_SECONDS_MAX).group(0)
        except TimeoutError as late:
            raise Failed(f"{late}: {self.logged(log)[-2000:]}") from late

    def get(self, port, path="/", **headers):
        """Status and body of an HTTP request."""
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=COMMAND_SECONDS_MAX) as answer:
                return f"{answer.status} {answer.read().decode(errors='replace')}\n"
        except urllib.error.HTTPError as answer:
            return f"{answer.code} {answer.read().decode(errors='replace')}\n"

    def put(self, protocol, text, last):
        """Sends text to the server, past the recorder; waits for an answer that ends so."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.direct[protocol]), timeout=60) as server:
            server.sendall(text.encode())
            while not answer.endswith(last.encode()):
                chunk = server.recv(65536)
                if not chunk:
                    raise Failed(f"{text[:40]!r}: {answer!r}")
                answer += chunk
        return answer.decode(errors="replace")

    def await_answer(self, protocol, text, expected):
        """Asks the server, past the recorder, until it answers so."""

        def answered():
            with socket.create_connection(("127.0.0.1", self.direct[protocol]), timeout=60) as way:
                way.sendall(text.encode())
                return way.recv(65536) == expected.encode()

        wait_until(f"{text!r} is answered by {expected!r}", answered, READY_SECONDS_MAX)

    def until(self, port, sent, last):
        """What is answered to bytes over TCP, up to an end of this kind."""
        answer = b""
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(sent)
            while not answer.endswith(last):
                chunk = connection.recv(65536)
                if not chunk:
                    break
                answer += chunk
        return answer

    def exchange(self, port, sent, size):
        """So many bytes that are answered to bytes over TCP."""
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(sent)
            return connection.makefile("rb").read(size)

    def unix(self, name):
        """A connection to a socket in the folder."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(self.path(name))
        return connection

    def say(self, port, text):
        """Sends text over TCP and closes; nothing is read."""
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(text.encode())

    def stop(self):
        """Ends each daemon and its children, the last one first."""
        for process in reversed(self.running):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS_MAX)
            # Children of a daemon are in its session.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.running = []
