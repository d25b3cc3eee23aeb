"""Runs a row on both servers and compares what was recorded."""

import os
import pathlib
import re
import socket
import subprocess

import stage
import transcript
from recorder import Recorder
from servers import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CELLAR = os.environ.get("CELLAR", TARGET / os.environ.get("BINARIES", "release") / "cellar")
COMMANDS = {
    "cellar": f"{CELLAR} --memcached 127.0.0.1:0 --resp 127.0.0.1:0 --http 127.0.0.1:0"
    " --memory 64MiB",
    "redis": "redis-server --save '' --appendonly no --bind 127.0.0.1 --port {port}",
    # With the thread that moves items between its queues, it lists new items after a while only.
    "memcached": "memcached -u nobody -l 127.0.0.1 -U 0 -p {port} -o no_lru_maintainer",
}
# Cellar's statistics are one for both protocols, so both are reset for each row.
EMPTY = {"redis": b"FLUSHALL\r\nSCRIPT FLUSH\r\nCONFIG RESETSTAT\r\nQUIT\r\n",
         "memcached": b"flush_all\r\nstats reset\r\nquit\r\n"}  # fmt: skip
SHOWN_BYTES = 600


class Run:
    """One run of a row: what the program printed, and each connection by its protocol."""

    def __init__(self, row, printed, recorded):
        self.printed, self.recorded = printed, recorded
        self.compared = {
            protocol: self.ordered(row, connections) for protocol, connections in recorded.items()
        }

    def alike(self, known):
        """Replaces an answer that is known to differ; whether there was one."""
        pattern, value, _ = known
        seen = 0
        for protocol, connections in self.compared.items():
            changed = []
            for [(sent, answered)] in connections:
                answered, count = re.subn(pattern, value, answered)
                changed.append([(sent, answered)])
                seen += count
            self.compared[protocol] = sorted(changed)
        return seen > 0

    @staticmethod
    def ordered(row, connections):
        """Connections without what differs by nature; their order is the system's choice."""
        cleaned = [transcript.normal(exchanges, row.replaced) for exchanges in connections]
        if row.polls:
            # The end of the run may cut the last exchange.
            seen = {pair for exchanges in cleaned for pair in exchanges if pair[0] and pair[1]}
            return sorted([pair] for pair in seen)
        joined = [tuple(map(b"".join, zip(*exchanges))) for exchanges in cleaned if exchanges]
        return sorted([pair] for pair in joined)


class Place:
    """The servers, a recorder for each protocol, and the folder."""

    def __init__(self, folder, shown):
        self.folder, self.shown = folder, shown
        self.servers = {}

    def __enter__(self):
        self.folder.chmod(0o755)
        try:
            for name in COMMANDS:
                self.start(name)
        except Exception:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.stop()

    def start(self, name):
        log = self.folder / f"{name}.log"
        self.servers[name] = Server(f"env -C {self.folder} {COMMANDS[name]}", log)

    def port(self, server, protocol):
        found = self.servers[server]
        return found.resp_port if protocol == "redis" else found.port

    def outcome(self, row):
        """What came of a row: works, setting, differs or broken."""
        recorders = {protocol: Recorder() for protocol in row.protocols}
        ports = {protocol: recorder.port for protocol, recorder in recorders.items()}
        actor = stage.Stage(self.folder / "row", ports)
        try:
            theirs = self.run(row, actor, recorders, lambda protocol: protocol)
            ours = self.run(row, actor, recorders, lambda _: "cellar")
        finally:
            for recorder in recorders.values():
                recorder.close()
        result = {"row": row.name, "protocol": " and ".join(row.protocols)} | self.sent(theirs)
        if isinstance(theirs.printed, Exception):
            return result | {"outcome": "broken", "why": f"on the real server: {theirs.printed}"}
        if not any(theirs.recorded.values()):
            return result | {"outcome": "broken", "why": "it sent nothing"}
        if row.known and not ours.alike(row.known):
            return result | {"outcome": "broken", "why": f"no longer different: {row.known[2]}"}
        why = difference(row, theirs, ours)
        if why:
            return result | {"outcome": "differs", "why": why}
        return result | {"outcome": "setting" if row.setting else "works"}

    def run(self, row, actor, recorders, server_of):
        """Runs the program on one server; an exception that it made stands for its output."""
        for protocol, recorder in recorders.items():
            if server_of(protocol) == "memcached":
                # It lists flushed items, too: each row has a new one.
                self.servers["memcached"].stop()
                self.start("memcached")
            port = self.port(server_of(protocol), protocol)
            emptied(port, protocol)
            recorder.begin(port)
            actor.direct[protocol] = port
        actor.clear()
        try:
            printed = row.run(actor) or ""
        except (stage.Failed, OSError, subprocess.TimeoutExpired) as problem:
            printed = problem
        finally:
            actor.stop()
        recorded = {protocol: recorder.end() for protocol, recorder in recorders.items()}
        found = Run(row, printed, recorded)
        if self.shown:
            print(f"--- {row.name} on {server_of(row.protocols[0])}: {printed}")
            for connections in recorded.values():
                for exchanges in connections:
                    print("connection")
                    for sent, answered in exchanges:
                        print(f"  > {sent[:SHOWN_BYTES]}\n  < {answered[:SHOWN_BYTES]}", flush=True)
        return found

    @staticmethod
    def sent(found):
        """The commands of all connections in their first order, and the kinds of deadlines."""
        names, kinds = {}, {}
        for connections in found.recorded.values():
            for exchanges in connections:
                for name, kind in transcript.commands(exchanges):
                    names[name] = None
                    if kind:
                        kinds[kind] = None
        return {"commands": list(names), "deadlines": sorted(kinds)}


def difference(row, theirs, ours):
    """Where two runs are not the same first; None if they are."""
    for protocol in row.protocols:
        good, other = theirs.compared[protocol], ours.compared[protocol]
        for number in range(max(len(good), len(other))):
            expected = good[number][0] if number < len(good) else (b"", b"")
            found = other[number][0] if number < len(other) else (b"", b"")
            for direction, one, two in zip(("sent", "answered"), expected, found):
                if one != two:
                    return f"{direction}: {apart(one, two)}"
    if str(theirs.printed) != str(ours.printed):
        return f"printed: {apart(str(theirs.printed).encode(), str(ours.printed).encode())}"
    return None


def apart(one, two):
    """Both from a little before the first byte that differs."""
    pairs = zip(one, two)
    at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(two)))
    at = max(0, at - 40)
    return f"{one[at : at + 200]!r}, Cellar: {two[at : at + 200]!r}"


def emptied(port, protocol):
    """Removes all items, scripts and counts, and waits until it is done."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(EMPTY[protocol])
        while connection.recv(4096):
            pass
