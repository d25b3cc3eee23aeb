"""Servers on free ports of this machine, from their start until they have left."""

import pathlib
import re
import shlex
import signal
import socket
import subprocess
import time

START_SECONDS_MAX = 20
STOP_SECONDS_MAX = 15
SUITE_SECONDS_MAX = 1500
# The sockets that hold the ports given out.
RESERVED = []


class Server:
    """One server process, from its start until it has left."""

    def __init__(self, command, log):
        self.port = free_port() if "{port}" in command else None
        self.resp_port = self.port
        self.http_port = self.port
        self.log = open(log, "w+")
        arguments = shlex.split(command.replace("{port}", str(self.port)))
        self.process = subprocess.Popen(arguments, stdout=self.log, stderr=subprocess.STDOUT)
        try:
            self.wait_until_ready()
        except Exception:
            self.process.kill()
            self.process.wait()
            raise

    def wait_until_ready(self):
        """Waits for the ready line with the port, or for a connection on the port given."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            if self.port is None:
                ready = re.search(
                    r"cellar ready .*memcached=\S+:(\d+) .*resp=\S+:(\d+) .*http=\S+:(\d+)",
                    self.output(),
                )
                self.port = ready and int(ready.group(1))
                self.resp_port = ready and int(ready.group(2))
                self.http_port = ready and int(ready.group(3))
            if self.port is not None and accepts(self.port):
                return
            time.sleep(0.02)
        raise RuntimeError(f"the server did not start:\n{self.output()}")

    def output(self):
        return pathlib.Path(self.log.name).read_text()

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
