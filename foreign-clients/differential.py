#!/usr/bin/env python3
"""Sends the same random commands to Cellar and to redis-server and compares every reply.

    foreign-clients/differential.py --port CELLAR [--seed N] [--commands N] [--only FAMILY]
    foreign-clients/differential.py --port CELLAR --elements N [--redis valkey-server]

A family is a group of commands with the arguments that suit them, mixed with the others' keys
(wrong types), wrong numbers of arguments, nonsense and transactions; each runs in RESP2 and in
RESP3. A redis-server of its own is started on a free port and stopped by its id. The seed is
printed; the same seed makes the same commands. After each part all keys of both are compared.

Replies are compared byte for byte, errors too, but for what order or chance decides: sets and
hashes as sets, random members by their number, times to live with a tolerance.

Differences that are meant to be (Redis here is Debian's 7.0.15):

* Numbers with decimals are compared as numbers: Redis before 7.2 prints 0.1 as
  0.10000000000000001, Cellar as 0.1.
* INCRBYFLOAT and HINCRBYFLOAT add exact decimals in Cellar and 80-bit floats in Redis, so sums of
  very large and very small numbers are not sent.
* Commands that Redis 7.0 lacks are sent to a Valkey that has them (`--redis valkey-server`): the
  family `newer`. Beside a Valkey no texts of errors are compared, which are Redis's in Cellar, nor
  who gets what of several keys that a transaction fills (`waits`): docs/guide/differences.md.
  INCREX and DELEX, which Valkey lacks, are not sent, nor are those that Cellar lacks: streams.
* BITCOUNT and BITPOS refuse wrong arguments before they look for the key, as in Redis 7.2; BITCOUNT
  counts from a start alone, and SCAN refuses a TYPE that does not exist, as in Valkey.
* Empty scores of ranges are refused, as in Valkey 9.2, and INCR reads a number with blanks behind
  it, which memcached's decr leaves. Neither is sent.
* LIMIT with a negative offset answers nothing, as in Redis; Valkey 9.1 counts from the other end of
  a large sorted set. It is not sent beside a Valkey.
* A time to wait for that is too long is "out of range", as in Redis 7.2; in 7.0 it is "negative".
* A script may call BLPOP and its kin, as in Redis 7.2, and does not wait.
* Zero has no sign in a stored score; in Redis that depends on how the sorted set is kept.
* OBJECT ENCODING and REFCOUNT: what Cellar answers is made up, its values have no such encodings.
  OBJECT FREQ answers in Cellar, and in Redis only under a policy that evicts by it.
* A deadline more than 35,000 years away is kept as that; hexadecimal decimals are refused.
"""

import argparse
import contextlib
import random
import select
import socket
import sys
import tempfile
import time

import dumps
from commands import KINDS, Maker
from libraries import SHOW, Programs
from servers import Server

REDIS = "redis-server"
TTL_SECONDS_TOLERATED = 3
# Cellar knows no later deadlines.
FAR_SECONDS = 1 << 40
FAILURES_SHOWN = 12
REPLY_BYTES_SHOWN = 600


class Error(str):
    """An error reply."""


class Status(str):
    """A simple string."""


class Map(list):
    """A RESP3 map, as a flat list like RESP2's."""


class Set(list):
    """A RESP3 set."""


class Push(list):
    """A RESP3 push."""


class Double(float):
    """A RESP3 double."""


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb", buffering=1 << 16)

    def send(self, data):
        self.socket.sendall(data)

    def call(self, *args):
        self.send(encode(args))
        return self.read()

    def read(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return Status(rest.decode("latin-1"))
        if kind == b"-":
            return Error(rest.decode("latin-1"))
        if kind == b":":
            return int(rest)
        if kind in b"$=":
            if rest == b"-1":
                return None
            data = self.reader.read(int(rest) + 2)
            return data[:-2]
        if kind == b"_":
            return None
        if kind == b",":
            return Double(rest)
        if kind == b"#":
            return rest == b"t"
        if kind == b"(":
            return int(rest)
        if kind == b"*" and rest == b"-1":
            return None
        length = int(rest)
        made = {b"*": list, b"%": Map, b"~": Set, b">": Push}[kind]
        if kind == b"%":
            length *= 2
        return made(self.read() for _ in range(length))

    def close(self):
        self.reader.close()
        self.socket.close()


def encode(args):
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        arg = arg.encode("latin-1") if isinstance(arg, str) else arg
        parts.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
    return b"".join(parts)


UNORDERED = {"smembers", "sunion", "sinter", "sdiff", "hkeys", "hvals", "keys", "spop"}
NUMERIC = {
    "incrbyfloat",
    "hincrbyfloat",
    "zadd",
    "zscore",
    "zmscore",
    "zincrby",
    "zrange",
    "zrevrange",
    "zrangebyscore",
    "zrevrangebyscore",
    "zpopmin",
    "zpopmax",
    "zscan",
    "zrandmember",
    "zunion",
    "zinter",
    "zdiff",
    "zmpop",
    "bzpopmin",
    "bzpopmax",
    "bzmpop",
    "geodist",
}
SEARCHES = {"geosearch", "georadius", "georadius_ro", "georadiusbymember", "georadiusbymember_ro"}
# Of a coordinate that are compared: Redis before 7.2 prints 17.
DECIMALS = 12
FIELD_TIMES = {"httl": 1, "hexpiretime": 1, "hpttl": 1000, "hpexpiretime": 1000}
TIMES = {"ttl": 1, "expiretime": 1, "pttl": 1000, "pexpiretime": 1000}


def number(value, decimals=None):
    if isinstance(value, (bytes, Double)):
        try:
            # The sum has no negative zero.
            exact = float(value) + 0.0
            return ("number", exact if decimals is None else round(exact, decimals))
        except ValueError:
            return value
    if isinstance(value, list):
        return [number(one, decimals) for one in value]
    return value


def plain(value):
    """A value that can be sorted, with its type."""
    if isinstance(value, list):
        return (type(value).__name__, [plain(one) for one in value])
    return (type(value).__name__, repr(value))


def pairs(flat):
    return sorted(plain(list(flat[i : i + 2])) for i in range(0, len(flat), 2))


def canonical(args, reply):
    """What of a reply has to be equal."""
    name = args[0].lower()
    if name == "object" and len(args) > 1 and args[1].lower() == "idletime":
        # Of a key that was read before it is an error here.
        return reply is not None
    if isinstance(reply, Error) or reply is None:
        return plain(reply)
    if name in UNORDERED and isinstance(reply, list):
        return type(reply).__name__, sorted(plain(one) for one in reply)
    if name == "hgetall" and isinstance(reply, list):
        return type(reply).__name__, pairs(reply)
    if name in ("hscan", "zscan") and isinstance(reply, list):
        items = number(reply[1]) if name == "zscan" else reply[1]
        return plain(reply[0]), pairs(items)
    if name in ("sscan", "scan") and isinstance(reply, list):
        return plain(reply[0]), sorted(plain(one) for one in reply[1])
    if name in ("randomkey", "srandmember", "hrandfield", "zrandmember") and isinstance(
        reply, bytes
    ):
        return "some"
    if name in ("srandmember", "hrandfield", "zrandmember") and isinstance(reply, list):
        if args[2].startswith("-"):
            return "so many", len(reply)
        is_flat = len(args) > 3 and reply and not isinstance(reply[0], list)
        if is_flat:
            reply = [list(reply[place : place + 2]) for place in range(0, len(reply), 2)]
        return sorted(plain(number(one)) for one in reply)
    if name == "object" and len(args) > 1 and args[1].lower() == "refcount":
        return type(reply).__name__
    if name == "function" and args[1].lower() == "dump" and isinstance(reply, bytes):
        # Redis compresses long ones.
        return "a dump"
    if name == "function" and isinstance(reply, list):
        # Libraries come in the order of a hash table.
        return type(reply).__name__, sorted(plain(one) for one in reply)
    if name == "memory" and isinstance(reply, int):
        return reply > 0
    if name in ("sort", "sort_ro") and isinstance(reply, list):
        words = {arg.upper() for arg in args}
        if {"BY", "ALPHA"} <= words:
            # Those of which other keys say the same come in any order.
            return "so many", len(reply)
    if name in SEARCHES and isinstance(reply, list):
        # Without an order they come as their cells are searched; with it some are as far.
        words = [arg.upper() for arg in args]
        if "ANY" in words:
            return "so many", len(reply)
        if "COUNT" in words:
            # Of those that are as far some may be among the nearest.
            distances = "WITHDIST" in words and all(isinstance(one, list) for one in reply)
            return len(reply), sorted(one[1] for one in reply) if distances else None
        return sorted(plain(number(one, DECIMALS)) for one in reply)
    if name in NUMERIC:
        return plain(number(reply))
    return plain(reply)


def same(args, one, other):
    name = args[0].lower()
    if name in ("bitcount", "bitpos") and isinstance(one, Error):
        # Redis before 7.2 looks at the key first, and at no arguments if it is not there.
        is_of_key = isinstance(other, Error) and other.startswith("WRONGTYPE")
        if is_of_key or other in (0, -1):
            return True
    if name == "bitcount" and len(args) == 3 and isinstance(other, Error):
        return isinstance(one, (int, Error))
    if name == "scan" and isinstance(one, Error) and one.startswith("ERR unknown type name"):
        return isinstance(other, list)
    if name in FIELD_TIMES and isinstance(one, list) and isinstance(other, list):
        unit = name[1:]
        return len(one) == len(other) and all(same([unit], *both) for both in zip(one, other))
    if name in TIMES and isinstance(one, int) and isinstance(other, int):
        if min(one, other) < 0:
            return one == other
        if min(one, other) > FAR_SECONDS * TIMES[name]:
            return True
        return abs(one - other) <= TTL_SECONDS_TOLERATED * TIMES[name]
    return canonical(args, one) == canonical(args, other)


def same_but_for_errors(args, one, other):
    """The same, where any two errors are equal."""
    if args[0].lower() == "getex" and one is None and isinstance(other, Error):
        # Cellar does not look at the time where there is no key.
        return True
    if args[0].lower() == "hsetex" and isinstance(one, Error) and other == 0:
        # Where NX or XX does not hold, Valkey does not look at the time.
        return True
    return isinstance(one, Error) and isinstance(other, Error) or same(args, one, other)


def same_transaction(queued, one, other, compare=same):
    if not isinstance(one, list) or not isinstance(other, list):
        return plain(one) == plain(other)
    if len(one) != len(other) or len(one) != len(queued):
        return False
    return all(compare(args, a, b) for args, a, b in zip(queued, one, other))


class Difference(Exception):
    pass


class Pair:
    """The same connection to both servers."""

    def __init__(self, cellar_port, redis_port):
        self.cellar = Connection(cellar_port)
        self.redis = Connection(redis_port)
        self.is_valkey = self.redis.call("command", "info", "hsetex") != [None]
        self.compare = same_but_for_errors if self.is_valkey else same

    def both(self, *args):
        one = self.cellar.call(*args)
        return one, self.redis.call(*args)

    def expect_same(self, *args):
        one, other = self.both(*args)
        if not self.compare(args, one, other):
            raise Difference(report(args, one, other))

    def play(self, commands):
        """Yields what differs."""
        data = b"".join(encode(args) for args in commands)
        self.cellar.send(data)
        self.redis.send(data)
        queued = []
        for args in commands:
            one, other = self.cellar.read(), self.redis.read()
            name = args[0].lower()
            if isinstance(other, Status) and other == "QUEUED":
                queued.append(args)
            if name == "exec" and len(args) == 1:
                if not same_transaction(queued, one, other, self.compare):
                    yield args, f"{report(args, one, other)}\n  queued: {queued}"
            elif not self.compare(args, one, other):
                yield args, report(args, one, other)
            if name in ("exec", "discard", "multi"):
                queued = []

    def close(self):
        self.cellar.close()
        self.redis.close()


def report(args, one, other):
    shown = " ".join(repr(arg) if not arg or not arg.isalnum() else arg for arg in args)
    one, other = (repr(reply)[:REPLY_BYTES_SHOWN] for reply in (one, other))
    return f"{shown}\n  cellar: {one}\n  redis:  {other}"


def scan(connection):
    """All keys, in as many steps as it takes."""
    keys, cursor = set(), b"0"
    while True:
        cursor, found = connection.call("scan", cursor, "count", "100")
        keys.update(found)
        if cursor == b"0":
            return keys


READ = {
    "string": ["get"],
    "hash": ["hgetall"],
    "list": ["lrange", "0", "-1"],
    "set": ["smembers"],
    "zset": ["zrange", "0", "-1", "withscores"],
}


def compare_everything(pair):
    """Compares all keys, their values and deadlines in all databases that are used."""
    for database in ("0", "1", "2"):
        pair.both("select", database)
        keys = scan(pair.cellar)
        others = scan(pair.redis)
        if keys != others:
            raise Difference(f"keys of {database}: {keys ^ others} are in one only")
        for key in sorted(keys):
            key = key.decode("latin-1")
            one, other = pair.both("type", key)
            if one != other:
                raise Difference(f"{key} is {one!r} in Cellar and {other!r} in Redis")
            name, *rest = READ[other]
            pair.expect_same(name, key, *rest)
            pair.expect_same("pttl", key)
    pair.both("select", "0")


def watch(pair, other, maker):
    """WATCH, with somebody else changing the key or not, by every kind of change."""
    key = maker.key("s")
    pair.expect_same("watch", key)
    if maker.random.random() < 0.3:
        pair.expect_same("get", key)
    if maker.random.random() < 0.6:
        changes = [
            ["set", key, maker.value()],
            ["del", key],
            ["append", key, "x"],
            ["expire", key, "1000"],
            ["get", key],
            ["set", "elsewhere", "x"],
            ["flushall"],
        ]
        other.expect_same(*maker.choice(changes))
    pair.expect_same("multi")
    pair.expect_same("set", key, "mine")
    one, two = pair.both("exec")
    if not same_transaction([["set", key, "mine"]], one, two):
        raise Difference(report(["exec"], one, two))


def pubsub(pair, other, maker):
    """Subscriptions; each command is followed by a PING that marks the end of its replies."""
    channels = ["one", "two", "three"]
    word = maker.choice(
        [
            "subscribe",
            "unsubscribe",
            "psubscribe",
            "punsubscribe",
            "ssubscribe",
            "sunsubscribe",
            "publish",
            "spublish",
            "get",
        ]
    )
    if word in ("publish", "spublish"):
        other.expect_same(word, maker.choice(channels), "message")
        args = ["ping"]
    elif word == "get":
        args = ["get", "s0"]
    else:
        least = 0 if word.startswith(("un", "pun", "sun")) else 1
        args = [word, *maker.random.sample(channels, maker.random.randint(least, 3))]
    replies = []
    for connection in (pair.cellar, pair.redis):
        connection.send(encode(args) + encode(["ping", "the-end"]))
        seen = []
        while True:
            seen.append(connection.read())
            last = seen[-1]
            if last == b"the-end" or isinstance(last, list) and b"the-end" in last:
                break
        if word.startswith(("un", "pun", "sun")):
            # Redis leaves its channels in the order of a hash table.
            seen = [sorted(plain(one[place]) for one in seen[:-1]) for place in (1, 2)]
        replies.append(plain(seen))
    if replies[0] != replies[1]:
        raise Difference(report(args, *replies))


class Waiting(Pair):
    """A connection to both servers whose command may wait."""

    def __init__(self, ports, proto):
        super().__init__(*ports)
        self.both("hello", str(proto))
        self.ids = self.both("client", "id")
        self.args = None
        self.replies = [None, None]

    def wait(self, args, watchers):
        """Sends a command, and returns when it waits or was answered."""
        self.args = args
        for place, connection in enumerate((self.cellar, self.redis)):
            before = blocked(watchers[place])
            connection.send(encode(args))
            while blocked(watchers[place]) == before:
                if select.select([connection.socket], [], [], 0)[0]:
                    break

    def end(self, watchers, reason):
        """Ends the wait unless it is over; compares what was answered."""
        ended = [
            watcher.call("client", "unblock", str(self.ids[place]), *reason)
            for place, watcher in enumerate(watchers)
        ]
        one, other = self.cellar.read(), self.redis.read()
        if ended[0] != ended[1] or not same(self.args, one, other):
            raise Difference(report(self.args, (one, ended[0]), (other, ended[1])))


def blocked(connection):
    text = connection.call("info", "clients")
    return int(text.split(b"blocked_clients:")[1].split()[0])


def waits(pair, other, maker, ports, proto):
    """Some clients wait, one after the other; others store and take; who waits still is told so."""
    pair.both("flushall")
    clients = [Waiting(ports, proto) for _ in range(maker.random.randint(1, 5))]
    watchers = (other.cellar, other.redis)
    done = []
    try:
        pair.expect_same("set", "s0", "text")
        for client in clients:
            client.wait(maker.waiting(), watchers)
            done.append(client.args)
        for _ in range(maker.random.randint(1, 4)):
            commands = maker.filling()
            done += commands
            for _, text in pair.play(commands):
                raise Difference(text)
        for client in clients:
            client.end(watchers, maker.choice([[], ["timeout"], ["error"]]))
        compare_everything(pair)
    except Difference as difference:
        raise Difference(f"{difference}\n  behind: {done}") from None
    finally:
        for client in clients:
            client.close()


# Each time some commands, on collections that are filled anew.
LARGE_PARTS = 2
FAMILIES = {
    # Name: how many of a thousand commands.
    "strings": 200,
    "bits": 80,
    "sorting": 60,
    "sketches": 60,
    "numbers": 80,
    "generic": 160,
    "hashes": 150,
    "sets": 130,
    "sorted_sets": 180,
    "geo": 120,
    "lists": 170,
    "newer": 150,
    "server": 40,
    "scripts": 20,
    "functions": 60,
    "all": 200,
}
def libraries(pair, other, maker):
    """A program of the libraries of scripts."""
    program = Programs(maker.random).program()
    one, two = pair.both("eval", program, "0")
    if one != two:
        call = program.removeprefix(SHOW)
        raise Difference(report(["eval", call], one, two))


def moving(pair, other, maker):
    """All of a database by DUMP and RESTORE or by MIGRATE, from redis-server to Cellar and back."""
    pair.both("flushall")
    dumps.fill(pair.redis, maker.random, 40)
    dumps.copy(pair.redis, pair.cellar)
    compare_everything(pair)
    pair.cellar.call("flushall")
    dumps.migrate(pair.redis, pair.cellar.socket.getpeername()[1])
    compare_everything(pair)
    pair.redis.call("flushall")
    dumps.copy(pair.cellar, pair.redis)
    compare_everything(pair)
    key = f"key:{maker.random.randrange(40)}"
    dump = bytearray(pair.redis.call("dump", key) or b"")
    if dump:
        # The version stays: which ones are read differs.
        place = maker.random.choice([*range(len(dump) - 10), *range(len(dump) - 8, len(dump))])
        dump[place] ^= 1 << maker.random.randrange(8)
    for args in (["new", "0", bytes(dump)], [key, "0", b"x"], [key, "x", b"x"], ["new", "-1", b"x"]):
        one, two = pair.both("restore", *args)
        if one != two:
            raise Difference(f"RESTORE: {one!r} in Cellar, {two!r} in Redis")


def moving_functions(pair, other, maker):
    """All libraries by FUNCTION DUMP and RESTORE, from redis-server to Cellar and back."""
    pair.both("function", "flush")
    for number in range(maker.random.randint(0, 9)):
        # Long ones are compressed in Redis's dumps.
        body = f"return '{maker.random.choice('xyz') * maker.random.choice([1, 90, 3_000])}'"
        library = f"#!lua name=l{number}\nredis.register_function('f{number}', function() {body} end)"
        pair.redis.call("function", "load", library)
    dump = pair.redis.call("function", "dump")
    if pair.cellar.call("function", "restore", dump) != "OK":
        raise Difference("Redis's dump of functions is refused")
    pair.expect_same("function", "list", "withcode")
    dump = pair.cellar.call("function", "dump")
    policy = maker.random.choice(["replace", "flush"])
    if pair.redis.call("function", "restore", dump, policy) != "OK":
        raise Difference("Cellar's dump of functions is refused")
    pair.expect_same("function", "list", "withcode")
    for number in range(9):
        pair.expect_same("fcall", f"f{number}", "0")
    for args in ([dump[:-1]], [b"x" + dump], [dump, "x"], [dump, "replace"]):
        pair.expect_same("function", "restore", *args)
    pair.both("function", "flush")


STEPS = {
    "moving": (moving, 12),
    "moving_functions": (moving_functions, 12),
    "watch": (watch, 300),
    "pubsub": (pubsub, 300),
    "waits": (waits, 200),
    "libraries": (libraries, 2_000),
}


def run_family(family, proto, seed, count, ports):
    """Yields the differences of one family in one protocol."""
    maker = Maker(f"{seed} {family} {proto}")
    pair = Pair(*ports)
    maker.beside_valkey = pair.is_valkey
    try:
        pair.both("flushall")
        pair.both("script", "flush")
        pair.both("function", "flush")
        # What took long is up to the machine.
        pair.both("config", "set", "slowlog-log-slower-than", "-1")
        pair.both("slowlog", "reset")
        pair.both("hello", str(proto))
        sent = 0
        while sent < count:
            commands = maker.part(family)
            sent += len(commands)
            found = list(pair.play(commands))
            try:
                if not found:
                    compare_everything(pair)
            except Difference as difference:
                found.append((["everything"], str(difference)))
            yield from found
            if found:
                pair.both("select", "0")
                pair.both("flushall")
    finally:
        pair.close()


SCANS = {"h": "hscan", "e": "sscan", "z": "zscan"}


def compare_scans(pair, key):
    """Compares what whole scans of a collection show."""
    name = SCANS.get(key[0])
    found = []
    for connection in (pair.cellar, pair.redis) if name else ():
        seen, cursor = [], b"0"
        while True:
            cursor, part = connection.call(name, key, cursor, "count", "500")
            if name == "sscan":
                seen += [[one] for one in part]
            else:
                seen += [part[place : place + 2] for place in range(0, len(part), 2)]
            if cursor == b"0":
                break
        # Both may show an element twice while their tables change.
        found.append(sorted({plain(number(one)).__repr__() for one in seen}))
    if found and found[0] != found[1]:
        raise Difference(f"{name} of {key}: {len(found[0])} elements and {len(found[1])}")


def run_large(family, proto, seed, elements, ports):
    """Yields the differences of one family whose first collections have so many elements."""
    maker = Maker(f"{seed} {family} {proto} {elements}", elements)
    pair = Pair(*ports)
    maker.beside_valkey = pair.is_valkey
    try:
        pair.both("flushall")
        pair.both("hello", str(proto))
        for _ in range(LARGE_PARTS):
            fill = list(maker.fill(family))
            found = []
            for first in range(0, len(fill), 50):
                found += pair.play(fill[first : first + 50])
            found += pair.play(maker.part(family))
            try:
                if not found:
                    compare_everything(pair)
                    compare_scans(pair, f"{KINDS[family]}0")
            except Difference as difference:
                found.append((["everything"], str(difference)))
            yield from found
            if found:
                return
    finally:
        pair.close()


def run_steps(name, proto, seed, count, ports):
    step = STEPS[name][0]
    maker = Maker(f"{seed} {name} {proto}")
    pair, other = Pair(*ports), Pair(*ports)
    try:
        pair.both("flushall")
        pair.both("hello", str(proto))
        for _ in range(count):
            try:
                if step is waits:
                    step(pair, other, maker, ports, proto)
                else:
                    step(pair, other, maker)
            except Difference as difference:
                yield [name], str(difference)
                return
    finally:
        pair.close()
        other.close()


def parts(commands, only=None):
    """Names of all parts, with the function that runs one."""
    total = sum(FAMILIES.values())
    for proto in (2, 3):
        for family, share in FAMILIES.items():
            if not only or family in only:
                yield family, proto, run_family, commands * share // total // 2
        for name, (_, count) in STEPS.items():
            if not only or name in only:
                yield name, proto, run_steps, count


def large_parts(elements, only=None):
    """The same of families with large collections."""
    for family in KINDS:
        for proto in (2, 3) if not only or family in only else ():
            yield family, proto, run_large, elements


def outcomes(cellar_port, seed, chosen, redis=REDIS):
    """Runs the parts that are chosen; yields (name, problem or None)."""
    with redis_server(redis) as redis_port:
        is_valkey = Connection(redis_port).call("command", "info", "hsetex") != [None]
        for name, proto, run, count in chosen:
            if name == ("waits" if is_valkey else "newer"):
                continue
            found, kinds = [], set()
            try:
                for args, text in run(name, proto, seed, count, (cellar_port, redis_port)):
                    kind = args[0].lower()
                    if kind not in kinds and len(found) < FAILURES_SHOWN:
                        found.append(text)
                    kinds.add(kind)
            except (OSError, ValueError) as problem:
                found.append(f"{type(problem).__name__}: {problem}")
            unit = "elements" if run is run_large else "commands"
            title = f"{name} in RESP{proto}, {count} {unit}, seed {seed}"
            yield title, "\n".join(found) or None


@contextlib.contextmanager
def redis_server(redis):
    """A redis-server on a free port, stopped by its id."""
    with tempfile.TemporaryDirectory(prefix="cellar-differential-") as folder:
        flags = f"--port {{port}} --bind 127.0.0.1 --save '' --appendonly no --dir {folder}"
        server = Server(f"{redis} {flags}", f"{folder}/redis.log")
        try:
            yield server.port
        finally:
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True, help="where Cellar listens for RESP")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--elements", type=int, help="of the first collections of each family")
    parser.add_argument("--redis", default=REDIS, help="a server that is started like it")
    parser.add_argument("--only", action="append", choices=[*FAMILIES, *STEPS])
    arguments = parser.parse_args()
    failed = False
    start = time.monotonic()
    chosen = parts(arguments.commands, arguments.only)
    if arguments.elements:
        chosen = large_parts(arguments.elements, arguments.only)
    for name, problem in outcomes(arguments.port, arguments.seed, chosen, arguments.redis):
        failed |= problem is not None
        print(f"{'ok     ' if problem is None else 'DIFFERS'} {name}", flush=True)
        if problem:
            print("        " + problem.replace("\n", "\n        "), flush=True)
    print(f"seed {arguments.seed}, {time.monotonic() - start:.1f} s")
    sys.exit(failed)


if __name__ == "__main__":
    main()
