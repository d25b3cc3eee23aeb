"""Random requests in memcached's binary protocol to Cellar and to memcached, every answer compared.

Both get the same bytes: whole pipelines, some quiet, some malformed, ended by a noop. Versions differ
between the two, so each is compared by when it was seen first. The pairs come from the seed, so what
passed once passes again.
"""

import random
import socket
import struct

HEAD = struct.Struct(">BBHBBHI4sQ")
KEYS = [b"a", b"b", "schlüssel".encode()]
# Keys that are counted and not extended: memcached keeps a number's width, with spaces behind it,
# unless an earlier answer still holds the item. Numbers stay below 2^63: behind larger ones it looks
# for a minus sign beyond the value.
COUNTERS = [b"number", b"k" * 250]
NUMBERS = [b"0", b"1", b"9", b"99", b"9" * 17, b"12 ", b"x", b"-1"]
GETS = [0x00, 0x09, 0x0C, 0x0D]
TOUCHES = [0x1C, 0x1D, 0x1E, 0x23, 0x24]
STORES = [0x01, 0x02, 0x03, 0x11, 0x12, 0x13]
ENDS = [0x0E, 0x0F, 0x19, 0x1A]
DELETES = [0x04, 0x14]
COUNTS = [0x05, 0x06, 0x15, 0x16]
# Requests sent before their answers are read, at most.
PIPELINE = 40
NOOP = 0x0A


def packet(code, key=b"", extras=b"", value=b"", opaque=b"\0\0\0\0", version=0):
    """A request."""
    body = extras + key + value
    return HEAD.pack(0x80, code, len(key), len(extras), 0, 0, len(body), opaque, version) + body


class Connection:
    """One connection to a server, and the versions that it has told."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=20)
        self.input = self.socket.makefile("rb")
        self.versions = {0: 0}

    def close(self):
        """Ends it."""
        self.input.close()
        self.socket.close()

    def answer(self):
        """The next answer; None at the end."""
        head = self.input.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        magic, code, key, extras, kind, status, body, opaque, version = HEAD.unpack(head)
        place = self.versions.setdefault(version, len(self.versions))
        text = self.input.read(body).rstrip(b" ")
        return (magic, code, key, extras, kind, status, opaque, place, text)

    def ask(self, requests):
        """The answers to requests, and to a noop behind them; fewer if the connection ends."""
        self.socket.sendall(requests + packet(NOOP, opaque=b"last"))
        answers = []
        while True:
            answer = self.answer()
            answers.append(answer)
            if answer is None or answer[6] == b"last":
                return answers


def operation(chance, versions):
    """A request, as a function of the versions that a server has told."""
    is_counter = chance.random() < 0.4
    key = chance.choice(COUNTERS if is_counter else KEYS)
    opaque = chance.randbytes(4).replace(b"l", b"x")
    place = chance.choice([0, 0, 0, chance.randrange(versions + 1)])
    value = chance.choice(NUMBERS)
    if not is_counter:
        value = chance.choice([b"", value, chance.randbytes(chance.choice([1, 40, 3000, 70000]))])
    flags, exptime = chance.choice([0, 1, 0xDEADBEEF]), chance.choice([0, 0, 100, 0x7FFFFFFF, 0xFFFFFFF0])
    kind = chance.random()
    if kind < 0.3:
        parts = (chance.choice(GETS), key)
    elif kind < 0.4:
        parts = (chance.choice(TOUCHES), key, struct.pack(">I", exptime))
    elif kind < 0.6:
        parts = (chance.choice(STORES), key, struct.pack(">II", flags, exptime), value)
    elif kind < 0.7:
        parts = (chance.choice(ENDS), chance.choice(KEYS), b"", value[:40])
    elif kind < 0.77:
        parts = (chance.choice(DELETES), key)
    elif kind < 0.95:
        delta, initial = chance.choice([0, 1, 10, 10**12]), chance.choice([0, 7, 10**17])
        exptime = chance.choice([0, 60, 0xFFFFFFFF])
        parts = (chance.choice(COUNTS), chance.choice(COUNTERS), struct.pack(">QQI", delta, initial, exptime))
    elif kind < 0.97:
        parts = (NOOP,)
    elif kind < 0.98:
        parts = (chance.choice([0x08, 0x18]),)
    else:
        # Nobody's opcode; memcached drops as many bytes too many as it has key and extras.
        parts = (chance.choice([0x1F, 0x28, 0x99]), b"", b"", value[:100])
    return lambda told: packet(*parts, **{"opaque": opaque, "version": told.get(place, 0)})


def malformed(chance):
    """A head that does not fit together, which ends the connection."""
    key = chance.choice([b"", b"a", b"k" * 251])
    extras = chance.randbytes(chance.choice([0, 1, 4, 8, 20]))
    code = chance.choice(GETS + STORES + DELETES + COUNTS + [NOOP, 0x07, 0x17])
    whole = bytearray(packet(code, key, extras, b"v"))
    if chance.random() < 0.2:
        whole[0] = chance.randrange(256)
    if chance.random() < 0.2:
        whole[8:12] = struct.pack(">I", chance.choice([0, 1, 9]))
    return packet(NOOP) + bytes(whole)


def compare(cellar, memcached, seed, rounds):
    """Runs that many pipelines against both; yields what differs."""
    chance = random.Random(seed)
    pair = [Connection(cellar), Connection(memcached)]
    for connection in pair:
        connection.ask(packet(0x08))
    asked = 0
    for number in range(rounds):
        versions = min(len(connection.versions) for connection in pair) - 1
        made = [operation(chance, versions) for _ in range(chance.randrange(1, PIPELINE))]
        asked += len(made)
        answers = []
        for connection in pair:
            told = {place: version for version, place in connection.versions.items()}
            answers.append(connection.ask(b"".join(make(told) for make in made)))
        if answers[0] != answers[1]:
            place = next(
                (at for at, two in enumerate(zip(*answers)) if two[0] != two[1]), len(answers[0]) - 1
            )
            yield f"pipeline {number}: Cellar {answers[0][place]!r}, memcached {answers[1][place]!r}"
            return
    for connection in pair:
        connection.close()
    for number in range(rounds):
        request = malformed(chance)
        answers = []
        for address in [cellar, memcached]:
            connection = Connection(address)
            connection.socket.sendall(request)
            connection.socket.shutdown(socket.SHUT_WR)
            answers.append([connection.answer(), connection.answer()])
            connection.close()
        if answers[0] != answers[1]:
            yield f"{request!r}: Cellar {answers[0]!r}, memcached {answers[1]!r}"
    if asked < rounds:
        yield "too few requests were made"
