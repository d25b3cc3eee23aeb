"""Servers on free ports of this machine, from their start until they have left; waiting for an event."""

import contextlib
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import threading
import time

# A bound only ends what would wait for ever; a busy machine may take long for what is right.
WAIT_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60
SUITE_SECONDS_MAX = 1500
LOOK_SECONDS = 0.01
START_TRIES_MAX = 5
# The state of a socket in /proc/net/tcp (proc(5)).
LISTEN = "0A"
# The sockets that hold the ports given out.
RESERVED = []


def wait_until(what, condition, seconds=WAIT_SECONDS_MAX):
    """Waits until the condition holds and returns its value; TimeoutError says what did not happen."""
    deadline = time.monotonic() + seconds
    while True:
        # The condition is looked at once more after the deadline.
        late = time.monotonic() > deadline
        if value := condition():
            return value
        if late:
            raise TimeoutError(f"after {seconds} s this is still not so: {what}")
        time.sleep(LOOK_SECONDS)


class PortTaken(RuntimeError):
    """A server could not bind its port."""


class Server:
    """One server process, from its start until it has left.

    It listens on a free port in the place of `{port}` in its command, on `port` if one is given, or
    else on the ports that its ready line names, as Cellar does.
    """

    def __init__(self, command, log, port=None):
        self.log = log
        if "{port}" in command:
            on_free_ports(1, lambda free: self.start(command.replace("{port}", str(free)), free))
        else:
            self.start(command, port)

    def start(self, command, port):
        """Starts the process and waits until it is ready."""
        self.port = self.resp_port = self.http_port = port
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(shlex.split(command), stdout=log, stderr=log)
        try:
            wait_until(f"{command} is ready", self.is_ready)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def is_ready(self):
        """Whether the ready line names the port, and the process listens there."""
        if self.process.poll() is not None:
            raise self.failure()
        if self.port is None:
            ready = re.search(
                r"cellar ready .*memcached=\S+:(\d+) .*resp=\S+:(\d+) .*http=\S+:(\d+)",
                self.output(),
            )
            if ready:
                self.port, self.resp_port, self.http_port = map(int, ready.groups())
        return self.port is not None and listens(self.process.pid, self.port)

    def failure(self):
        """Why the process has left before it was ready."""
        output = self.output()
        # Some servers do not say why they leave.
        taken = re.search("address already in use", output, re.IGNORECASE)
        taken = taken or (self.port is not None and accepts(self.port))
        return (PortTaken if taken else RuntimeError)(f"the server did not start:\n{output}")

    def output(self):
        return pathlib.Path(self.log).read_text(errors="replace")

    def stop(self):
        """Sends SIGTERM; returns what was wrong about the server's end, or None."""
        early = self.process.poll()
        if early is not None:
            return f"the server left with {early} during the tests:\n{self.output()}"
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return f"the server did not stop within {STOP_SECONDS_MAX} s:\n{self.output()}"
        return None if code == 0 else f"the server left with {code}:\n{self.output()}"


def on_free_ports(count, start, choose=None):
    """What `start` returns for so many free ports, or for others where one of them is taken."""
    choose = choose or free_port
    for _ in range(START_TRIES_MAX - 1):
        try:
            return start(*(choose() for _ in range(count)))
        except PortTaken:
            continue
    return start(*(choose() for _ in range(count)))


def free_port(port=0):
    """A port for a server that is to be started, or this one; OSError if it is not free.

    Until this program ends, a socket that does not listen is bound to the port: so the system gives
    it to nobody else, while a server that sets SO_REUSEADDR may bind it too (socket(7)).
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", port))
    RESERVED.append(holder)
    return holder.getsockname()[1]


def listens(pid, port):
    """Whether this process listens at the port; another one may have taken it."""
    links = set()
    with contextlib.suppress(FileNotFoundError):
        for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                links.add(os.readlink(descriptor))
    for table in pathlib.Path("/proc/net").glob("tcp*"):
        for line in table.read_text().splitlines()[1:]:
            _, address, _, state, *_, inode = line.split()[:10]
            is_there = state == LISTEN and address.endswith(f":{port:04X}")
            if is_there and f"socket:[{inode}]" in links:
                return True
    return False


def accepts(port):
    """Whether somebody listens at the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def output_of(command, timeout=SUITE_SECONDS_MAX, **options):
    """Runs a command to its end; returns its exit code and all it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        **options,
    )
    return done.returncode, done.stdout


def lines_of(command, each_line, timeout=SUITE_SECONDS_MAX, **options):
    """The same, and calls `each_line` with each line as soon as it is printed."""
    process = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        **options,
    )
    limit = threading.Timer(timeout, process.kill)
    limit.start()
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            each_line(line)
        return process.wait(), "".join(lines)
    finally:
        limit.cancel()
        process.kill()
        process.wait()
