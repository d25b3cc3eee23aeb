#!/usr/bin/env python3
"""Sends the same random commands to Cellar and to redis-server and compares every reply.

    clients/differential.py --port CELLAR [--seed N] [--commands N] [--only FAMILY]

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
* Commands that Redis 7.0 lacks are not sent: HEXPIRE and its family, MSETEX, INCREX, DELEX,
  DELIFEQ, SET with IFEQ. Neither are those that Cellar lacks: lists, streams, SORT, DUMP.
* OBJECT ENCODING and REFCOUNT: what Cellar answers is made up, its values have no such encodings.
* A deadline more than 35,000 years away is kept as that; hexadecimal decimals are refused.
"""

import argparse
import contextlib
import random
import socket
import subprocess
import sys
import time

REDIS = "redis-server"
START_SECONDS_MAX = 20
TTL_SECONDS_TOLERATED = 3
# Cellar knows no later deadlines.
FAR_SECONDS = 1 << 40
PART = 250
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


# Arguments

VALUES = [
    "", "a", "b", "c", "hello", "hello world", "10", "-5", "0", "3.5", "0.1", "-2.25", "abc\r\n\x00d",
    "x" * 100, " 12", "12 ", "1e3", "9223372036854775807", "-9223372036854775808", "007", "mynewtext",
]
INTEGERS = ["0", "1", "2", "-1", "-2", "3", "5", "10", "100", "-100"]
ODD_INTEGERS = [
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "abc", "", "1.5", " 1", "+1",
    "01", "-0", "1 ", "4294967296",
]
# Such as are exact in binary, too.
FLOATS = ["1", "-1", "0.5", "1.25", "3", "-2.75", "0.125", "100.5", "1e2", "25e-2"]
ODD_FLOATS = ["abc", "", "nan", "inf", "-inf", " 1", "1 ", "1e400", "1.2.3"]
TTLS = ["100", "1000", "5000", "100000"]
ODD_TTLS = [
    "0", "-1", "-100", "9223372036854775807", "-9223372036854775808", "abc", "", "1.5", "9999999999",
    "9223372036854776",
]
JUNK = ["", "abc", "-1", "99999999999999999999", "nan", "\r\n", "*", "EX", "NX", "LIMIT", "0"]
PATTERNS = ["*", "s*", "h?", "[se]*", "k0", "[^s]*", "\\*", "*0", "", "z[0-2]"]
MEMBERS = ["a", "b", "c", "d", "e", "f", "1", "2", "3", "10", "-7", "long" * 20, ""]
FIELDS = ["f1", "f2", "f3", "f4", "n", "x", "", "long" * 20]
OPTIONS = ["EX", "PX", "EXAT", "PXAT", "NX", "XX", "GET", "KEEPTTL", "PERSIST", "GT", "LT", "CH", "INCR"]


class Maker:
    """Makes commands, all from one random source."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.choice = self.random.choice
        self.unix_s = int(time.time())

    def often(self, usual, odd, share=0.12):
        return self.choice(odd if self.random.random() < share else usual)

    def key(self, kind):
        if self.random.random() < 0.12:
            kind = self.choice("sheznk")
        return f"{kind}{self.random.randrange(5)}"

    def keys(self, kind, most=4):
        return [self.key(kind) for _ in range(self.random.randint(1, most))]

    def value(self):
        return self.choice(VALUES)

    def integer(self):
        return self.often(INTEGERS, ODD_INTEGERS)

    def float(self):
        return self.often(FLOATS, ODD_FLOATS, 0.08)

    def ttl(self, unit):
        text = self.often(TTLS, ODD_TTLS)
        if unit.endswith("AT") and text in TTLS:
            text = str(self.unix_s + int(text))
        if unit.startswith("P") and text not in ODD_TTLS:
            text += "000"
        return text

    def some(self, *options):
        return [option for option in options if self.random.random() < 0.3]

    def case(self, word):
        shape = self.random.random()
        return word.upper() if shape < 0.6 else word if shape < 0.9 else word.capitalize()

    def expiry(self, extra=()):
        unit = self.choice(["EX", "PX", "EXAT", "PXAT", *extra])
        return [unit, self.ttl(unit)] if unit not in extra else [unit]

    def spoiled(self, args):
        """The same command with something wrong about it."""
        args = list(args)
        way = self.random.random()
        if way < 0.35 and len(args) > 1:
            args.pop(self.random.randrange(1, len(args)))
        elif way < 0.6:
            args.insert(self.random.randint(1, len(args)), self.choice(JUNK))
        elif way < 0.9 and len(args) > 1:
            args[self.random.randrange(1, len(args))] = self.choice(JUNK)
        else:
            args.append(self.choice(OPTIONS))
        return args

    # Families

    def strings(self):
        k = lambda: self.key("s")
        pairs = lambda: [word for key in self.keys("s") for word in (key, self.value())]
        return self.choice([
            lambda: ["set", k(), self.value()],
            lambda: ["set", k(), self.value(), *self.expiry(["KEEPTTL"]), *self.some("NX", "XX", "GET")],
            lambda: ["set", k(), self.value(), *self.some("NX", "XX", "GET", "KEEPTTL")],
            lambda: ["get", k()],
            lambda: ["get", k()],
            lambda: ["mget", *self.keys("s")],
            lambda: ["mset", *pairs()],
            lambda: ["msetnx", *pairs()],
            lambda: ["setex", k(), self.ttl("EX"), self.value()],
            lambda: ["psetex", k(), self.ttl("PX"), self.value()],
            lambda: ["setnx", k(), self.value()],
            lambda: ["getset", k(), self.value()],
            lambda: ["getdel", k()],
            lambda: ["getex", k()],
            lambda: ["getex", k(), *self.expiry(["PERSIST"])],
            lambda: ["append", k(), self.value()],
            lambda: ["strlen", k()],
            lambda: ["getrange", k(), self.integer(), self.integer()],
            lambda: ["substr", k(), self.integer(), self.integer()],
            lambda: ["setrange", k(), self.often(["0", "1", "3", "10", "50"], ["-1", "abc", "536870912"]),
                     self.value()],
            lambda: ["lcs", k(), k(), *self.some("LEN", "IDX", "WITHMATCHLEN")],
            lambda: ["lcs", k(), k(), "IDX", "MINMATCHLEN", self.integer(), *self.some("WITHMATCHLEN")],
            lambda: ["getbit", k(), self.often(["0", "1", "7", "100"], ["-1", "4294967296", "a"])],
            lambda: ["setbit", k(), self.often(["0", "1", "7", "100"], ["-1", "4294967296", "a"]),
                     self.often(["0", "1"], ["2", "-1", "a"])],
        ])()

    def numbers(self):
        k, d = lambda: self.key("n"), lambda: f"d{self.random.randrange(3)}"
        return self.choice([
            lambda: ["incr", k()],
            lambda: ["decr", k()],
            lambda: ["incrby", k(), self.integer()],
            lambda: ["decrby", k(), self.integer()],
            # Numbers with decimals have keys of their own: sums of huge ones differ.
            lambda: ["incrbyfloat", d(), self.float()],
            lambda: ["set", d(), self.often(FLOATS, ["a", "", "3.0", "1e3"])],
            lambda: ["get", d()],
            lambda: ["set", k(), self.often(INTEGERS, VALUES, 0.2)],
            lambda: ["get", k()],
            lambda: ["del", k()],
            lambda: ["append", k(), self.choice("0123456789")],
        ])()

    def generic(self):
        k = lambda: self.key(self.choice("sheznk"))
        expire = self.choice(["expire", "pexpire", "expireat", "pexpireat"])
        unit = {"expire": "EX", "pexpire": "PX", "expireat": "EXAT", "pexpireat": "PXAT"}[expire]
        return self.choice([
            lambda: [expire, k(), self.ttl(unit), *self.some("NX", "XX", "GT", "LT")],
            lambda: [expire, k(), self.ttl(unit)],
            lambda: [self.choice(["ttl", "pttl", "expiretime", "pexpiretime"]), k()],
            lambda: ["persist", k()],
            lambda: ["del", *self.keys(self.choice("sheznk"))],
            lambda: ["unlink", *self.keys(self.choice("sheznk"))],
            lambda: ["exists", k(), k(), k()],
            lambda: ["touch", k(), k()],
            lambda: ["type", k()],
            lambda: ["rename", k(), k()],
            lambda: ["renamenx", k(), k()],
            lambda: ["copy", k(), k(), *self.some("REPLACE")],
            lambda: ["copy", k(), k(), "DB", self.often(["0", "1", "2"], ["-1", "99", "x"]),
                     *self.some("REPLACE")],
            lambda: ["move", k(), self.often(["1", "2"], ["0", "99", "-1", "x"])],
            lambda: ["select", self.often(["0", "1", "2"], ["16", "-1", "x", "99999999999"])],
            lambda: ["swapdb", self.often(["0", "1", "2"], ["99", "x"]), self.choice(["0", "1", "2"])],
            lambda: ["randomkey"],
            lambda: ["keys", self.choice(PATTERNS)],
            lambda: ["dbsize"],
            lambda: [self.choice(["flushdb", "flushall"]), *self.some("ASYNC", "SYNC")]
            if self.random.random() < 0.2 else ["dbsize"],
            lambda: ["object", self.choice(["refcount", "idletime", "freq", "nosuch"]), k()],
            lambda: ["set", k(), self.value()],
            lambda: ["wait", "0", "0"],
        ])()

    def hashes(self):
        k, f = lambda: self.key("h"), lambda: self.choice(FIELDS)
        fields = lambda: [f() for _ in range(self.random.randint(1, 4))]
        pairs = lambda: [word for field in fields() for word in (
            field, self.choice(FLOATS if field == "x" else VALUES))]
        return self.choice([
            lambda: ["hset", k(), *pairs()],
            lambda: ["hset", k(), *pairs()],
            lambda: ["hmset", k(), *pairs()],
            lambda: ["hsetnx", k(), "f1", self.value()],
            lambda: ["hget", k(), f()],
            lambda: ["hmget", k(), *fields()],
            lambda: ["hgetall", k()],
            lambda: ["hkeys", k()],
            lambda: ["hvals", k()],
            lambda: ["hdel", k(), *fields()],
            lambda: ["hexists", k(), f()],
            lambda: ["hlen", k()],
            lambda: ["hstrlen", k(), f()],
            lambda: ["hincrby", k(), "n", self.integer()],
            lambda: ["hincrby", k(), f(), self.choice(INTEGERS)],
            lambda: ["hincrbyfloat", k(), "x", self.float()],
            lambda: ["hrandfield", k()],
            lambda: ["hrandfield", k(), self.often(["100", "-5", "0", "2"], ["abc", ""]),
                     *self.some("WITHVALUES")],
            lambda: ["hscan", k(), "0", "COUNT", "1000", *self.match()],
        ])()

    def match(self):
        return ["MATCH", self.choice(["*", "f*", "?", "[a-c]"])] if self.random.random() < 0.4 else []

    def sets(self):
        k, m = lambda: self.key("e"), lambda: self.choice(MEMBERS)
        members = lambda: [m() for _ in range(self.random.randint(1, 5))]
        return self.choice([
            lambda: ["sadd", k(), *members()],
            lambda: ["sadd", k(), *members()],
            lambda: ["srem", k(), *members()],
            lambda: ["smembers", k()],
            lambda: ["sismember", k(), m()],
            lambda: ["smismember", k(), *members()],
            lambda: ["scard", k()],
            lambda: ["spop", k(), self.often(["1000", "0"], ["-1", "abc"])],
            lambda: ["srandmember", k()],
            lambda: ["srandmember", k(), self.often(["100", "-5", "0", "2"], ["abc"])],
            lambda: ["smove", k(), k(), m()],
            lambda: [self.choice(["sunion", "sinter", "sdiff"]), *self.keys("e", 3)],
            lambda: [self.choice(["sunionstore", "sinterstore", "sdiffstore"]), k(), *self.keys("e", 3)],
            lambda: ["sintercard", self.often(["1", "2"], ["0", "-1", "3", "x"]), *self.keys("e", 2),
                     *(["LIMIT", self.integer()] if self.random.random() < 0.4 else [])],
            lambda: ["sscan", k(), "0", "COUNT", "1000", *self.match()],
        ])()

    def score(self):
        return self.often(["1", "2", "3", "2.5", "-1", "10", "0", "inf", "-inf"], ODD_FLOATS[:3], 0.06)

    def bound(self):
        text = self.often(["0", "1", "2", "3", "-inf", "+inf", "2.5"], ["abc", ""], 0.06)
        return "(" + text if self.random.random() < 0.3 else text

    def lex(self):
        return self.often(["-", "+", "[a", "(a", "[c", "(d", "[e"], ["a", "", "["], 0.08)

    def limit(self):
        if self.random.random() < 0.6:
            return []
        return ["LIMIT", self.often(["0", "1", "2"], ["-1", "x"]), self.often(["1", "2", "-1"], ["x"])]

    def sorted_sets(self):
        k, m = lambda: self.key("z"), lambda: self.choice(MEMBERS)
        l = lambda: f"l{self.random.randrange(3)}"
        pairs = lambda: [w for _ in range(self.random.randint(1, 4)) for w in (self.score(), m())]
        members = lambda: [m() for _ in range(self.random.randint(1, 4))]
        scores = lambda: self.some("WITHSCORES")
        return self.choice([
            lambda: ["zadd", k(), *pairs()],
            lambda: ["zadd", k(), *pairs()],
            lambda: ["zadd", k(), *self.some("NX", "XX", "GT", "LT", "CH"), *pairs()],
            lambda: ["zadd", k(), *self.some("NX", "XX", "GT", "LT"), "INCR", self.score(), m()],
            lambda: ["zrem", k(), *members()],
            lambda: ["zscore", k(), m()],
            lambda: ["zmscore", k(), *members()],
            lambda: ["zcard", k()],
            lambda: ["zcount", k(), self.bound(), self.bound()],
            # Order by members is defined among equal scores only: keys of their own.
            lambda: ["zadd", l(), *[w for _ in range(3) for w in ("0", m())]],
            lambda: ["zlexcount", l(), self.lex(), self.lex()],
            lambda: ["zincrby", k(), self.score(), m()],
            lambda: [self.choice(["zrank", "zrevrank"]), k(), m()],
            lambda: ["zrange", k(), self.integer(), self.integer(), *self.some("REV"), *scores()],
            lambda: ["zrange", k(), self.bound(), self.bound(), "BYSCORE", *self.some("REV"),
                     *self.limit(), *scores()],
            lambda: ["zrange", l(), self.lex(), self.lex(), "BYLEX", *self.some("REV"), *self.limit()],
            lambda: ["zrevrange", k(), self.integer(), self.integer(), *scores()],
            lambda: [self.choice(["zrangebyscore", "zrevrangebyscore"]), k(), self.bound(),
                     self.bound(), *scores(), *self.limit()],
            lambda: [self.choice(["zrangebylex", "zrevrangebylex"]), l(), self.lex(), self.lex(),
                     *self.limit()],
            lambda: ["zremrangebyscore", k(), self.bound(), self.bound()],
            lambda: ["zremrangebyrank", k(), self.integer(), self.integer()],
            lambda: ["zremrangebylex", l(), self.lex(), self.lex()],
            lambda: [self.choice(["zpopmin", "zpopmax"]), k()],
            lambda: [self.choice(["zpopmin", "zpopmax"]), k(), self.often(["1", "2", "0"], ["-1", "x"])],
            lambda: ["zrandmember", k(), self.often(["100", "-5", "0"], ["abc"])],
            lambda: ["zscan", k(), "0", "COUNT", "1000", *self.match()],
        ])()

    def server(self):
        return self.choice([
            lambda: ["ping", *self.some("x")],
            lambda: ["echo", self.value()],
            lambda: ["nosuch", self.value()],
            lambda: ["lpush2", self.value(), "x" * 130, "y" * 130],
            lambda: ["config", self.choice(["nosuch", "get", "set"])],
            lambda: ["config", "set", self.choice(["nosuch", "appendonly", "hz"]),
                     self.choice(["x", "10"])],
            lambda: ["config", "get", self.choice(["save", "appendonly", "hz", "nosuch"])],
            lambda: ["client", self.choice(["getname", "nosuch", "getredir"])],
            lambda: ["client", "setname", self.choice(["me", "", "a b"])],
            lambda: ["client", "no-evict", self.choice(["on", "off", "x"])],
            lambda: ["command", self.choice(["nosuch", "getkeys"]), "set", self.value(), "1"],
            lambda: ["object", "nosuch"],
            lambda: ["memory", "usage", "nothing"],
            lambda: ["memory", "nosuch"],
            lambda: ["slowlog", self.choice(["len2", "nosuch"])],
            lambda: ["slowlog", "get", self.choice(["-2", "x"])],
            lambda: ["cluster", "info"],
            lambda: ["role"],
            lambda: ["lastsave", "x"],
            lambda: ["publish", "channel", "message"],
            lambda: ["pubsub", self.choice(["channels", "numpat", "numsub", "nosuch"])],
            lambda: ["latency", self.choice(["latest", "reset", "nosuch"])],
            lambda: ["auth", *[self.choice(["default", "x"]) for _ in range(self.random.randint(0, 3))]],
            lambda: ["acl", self.choice(["whoami", "list", "nosuch"])],
            lambda: ["debug", "sleep", "0"],
            lambda: ["shutdown", "nosuch"],
            lambda: ["time", "x"],
            lambda: ["hello", self.choice(["4", "x", "1"])],
            lambda: ["unwatch"],
        ])()

    def scripts(self):
        s, n = self.key("s"), self.key("n")
        return self.choice([
            lambda: ["eval", "return redis.call('get', KEYS[1])", "1", s],
            lambda: ["eval", "return redis.call('set', KEYS[1], ARGV[1])", "1", s, self.value()],
            lambda: ["eval", "return redis.pcall('incr', KEYS[1])", "1", s],
            lambda: ["eval", "return redis.call('incrby', KEYS[1], ARGV[1])", "1", n, "5"],
            lambda: ["eval", "return {1, 2, 'three', {4, false, 5}}", "0"],
            lambda: ["eval", "return {KEYS[1], ARGV[1], #KEYS, #ARGV}", "1", s, self.value()],
            lambda: ["eval", "return 3.99", "0"],
            lambda: ["eval", "return true", "0"],
            lambda: ["eval", "return false", "0"],
            lambda: ["eval", "return nil", "0"],
            lambda: ["eval", "return redis.status_reply('FINE')", "0"],
            lambda: ["eval", "return redis.error_reply('MY error')", "0"],
            lambda: ["eval", "return {ok='FINE'}", "0"],
            lambda: ["eval", "return {err='ERR bad'}", "0"],
            lambda: ["eval", "return redis.call('mget', KEYS[1], KEYS[2])", "2", s, n],
            lambda: ["eval", "return redis.sha1hex(ARGV[1])", "0", self.value()],
            lambda: ["eval", "return tostring(redis.call('exists', KEYS[1]))", "1", s],
            lambda: ["eval", "if redis.call('get',KEYS[1]) == ARGV[1] then return "
                             "redis.call('del',KEYS[1]) else return 0 end", "1", s, self.value()],
            lambda: ["eval", "return 1", self.choice(["x", "-1", "5"]), s],
            lambda: ["evalsha", "f" * 40, "0"],
            lambda: ["evalsha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
            lambda: ["script", "load", "return 1"],
            lambda: ["script", "exists", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "f" * 40],
            lambda: ["script", "flush"] if self.random.random() < 0.3 else ["script", "nosuch"],
            lambda: ["eval", "return redis.call('type', KEYS[1])", "1", self.key("h")],
        ])()

    def all(self):
        family = self.choice(
            ["strings", "numbers", "generic", "hashes", "sets", "sorted_sets", "server"])
        return getattr(self, family)()

    def command(self, family):
        args = getattr(self, family)()
        args[0] = self.case(args[0])
        if self.random.random() < 0.06:
            args = self.spoiled(args)
        return args

    def part(self, family):
        """Some commands to be sent in one go; no transaction is left open."""
        commands = []
        while len(commands) < PART:
            if self.random.random() < 0.03:
                inner = self.random.randint(0, 6)
                commands.append(["multi"])
                commands += [self.command(family) for _ in range(inner)]
                commands.append([self.choice(["exec", "exec", "exec", "discard"])])
                # Nobody stays in a transaction because a command in it was refused.
                commands.append(["discard"])
            else:
                commands.append(self.command(family))
        return [fixed(args) for args in commands]


def fixed(args):
    """The command without what chance alone would decide or what is another server's."""
    name = args[0].lower()
    if name in ("zrank", "zrevrank") and len(args) != 3:
        # Later versions take WITHSCORE.
        return args[:2]
    if name == "spop" and len(args) != 3:
        return ["scard", *args[1:2]]
    if name in ("zrandmember", "hrandfield", "srandmember") and len(args) > 2 and args[2] == "2":
        args[2] = "100"
    if name == "hello" and (len(args) == 1 or args[1] in ("2", "3")):
        return ["ping"]
    if name in ("time", "lastsave", "lolwut") and len(args) == 1:
        return ["ping"]
    if name in ("zadd", "zincrby", "incrbyfloat", "hincrbyfloat", "set") and "1e400" in args:
        return ["ping"]
    if name == "client" and len(args) > 1 and args[1].lower() in ("reply", "pause", "kill", "tracking"):
        return ["ping"]
    if name in ("quit", "reset", "subscribe", "psubscribe", "monitor"):
        return ["ping"]
    if name == "config" and ("*" in args or args[1:3] == ["get", ""]):
        return ["ping"]
    if name == "shutdown" and args[1:2] != ["nosuch"]:
        return ["ping"]
    return args


# Comparison

UNORDERED = {"smembers", "sunion", "sinter", "sdiff", "hkeys", "hvals", "keys", "spop"}
NUMERIC = {
    "incrbyfloat", "hincrbyfloat", "zadd", "zscore", "zmscore", "zincrby", "zrange", "zrevrange",
    "zrangebyscore", "zrevrangebyscore", "zpopmin", "zpopmax", "zscan", "zrandmember",
}
TIMES = {"ttl": 1, "expiretime": 1, "pttl": 1000, "pexpiretime": 1000}


def number(value):
    if isinstance(value, (bytes, Double)):
        try:
            return ("number", float(value))
        except ValueError:
            return value
    if isinstance(value, list):
        return [number(one) for one in value]
    return value


def plain(value):
    """A value that can be sorted, with its type."""
    if isinstance(value, list):
        return (type(value).__name__, [plain(one) for one in value])
    return (type(value).__name__, repr(value))


def pairs(flat):
    return sorted(plain(list(flat[i:i + 2])) for i in range(0, len(flat), 2))


def canonical(args, reply):
    """What of a reply has to be equal."""
    name = args[0].lower()
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
    if name in ("randomkey", "srandmember", "hrandfield", "zrandmember") and isinstance(reply, bytes):
        return "some"
    if name in ("srandmember", "hrandfield", "zrandmember") and isinstance(reply, list):
        if args[2].startswith("-"):
            return "so many", len(reply)
        is_flat = len(args) > 3 and reply and not isinstance(reply[0], list)
        if is_flat:
            reply = [list(reply[place:place + 2]) for place in range(0, len(reply), 2)]
        return sorted(plain(number(one)) for one in reply)
    if name == "object" and len(args) > 1 and args[1].lower() in ("idletime", "refcount"):
        return type(reply).__name__
    if name in NUMERIC:
        return plain(number(reply))
    return plain(reply)


def same(args, one, other):
    name = args[0].lower()
    if name in TIMES and isinstance(one, int) and isinstance(other, int):
        if min(one, other) < 0:
            return one == other
        if min(one, other) > FAR_SECONDS * TIMES[name]:
            return True
        return abs(one - other) <= TTL_SECONDS_TOLERATED * TIMES[name]
    return canonical(args, one) == canonical(args, other)


def same_transaction(queued, one, other):
    if not isinstance(one, list) or not isinstance(other, list):
        return plain(one) == plain(other)
    if len(one) != len(other) or len(one) != len(queued):
        return False
    return all(same(args, a, b) for args, a, b in zip(queued, one, other))


class Difference(Exception):
    pass


class Pair:
    """The same connection to both servers."""

    def __init__(self, cellar_port, redis_port):
        self.cellar = Connection(cellar_port)
        self.redis = Connection(redis_port)

    def both(self, *args):
        one = self.cellar.call(*args)
        return one, self.redis.call(*args)

    def expect_same(self, *args):
        one, other = self.both(*args)
        if not same(args, one, other):
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
                if not same_transaction(queued, one, other):
                    yield args, f"{report(args, one, other)}\n  queued: {queued}"
            elif not same(args, one, other):
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
    "string": ["get"], "hash": ["hgetall"], "set": ["smembers"],
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
        changes = [["set", key, maker.value()], ["del", key], ["append", key, "x"],
                   ["expire", key, "1000"], ["get", key], ["set", "elsewhere", "x"], ["flushall"]]
        other.expect_same(*maker.choice(changes))
    pair.expect_same("multi")
    pair.expect_same("set", key, "mine")
    one, two = pair.both("exec")
    if not same_transaction([["set", key, "mine"]], one, two):
        raise Difference(report(["exec"], one, two))


def pubsub(pair, other, maker):
    """Subscriptions; each command is followed by a PING that marks the end of its replies."""
    channels = ["one", "two", "three"]
    word = maker.choice(["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "publish", "get"])
    if word == "publish":
        other.expect_same("publish", maker.choice(channels), "message")
        args = ["ping"]
    elif word == "get":
        args = ["get", "s0"]
    else:
        least = 0 if word.startswith(("un", "pun")) else 1
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
        if word.startswith(("un", "pun")):
            # Redis leaves its channels in the order of a hash table.
            seen = [sorted(plain(one[place]) for one in seen[:-1]) for place in (1, 2)]
        replies.append(plain(seen))
    if replies[0] != replies[1]:
        raise Difference(report(args, *replies))


FAMILIES = {
    # Name: how many of a thousand commands.
    "strings": 200, "numbers": 80, "generic": 160, "hashes": 150, "sets": 130, "sorted_sets": 180,
    "server": 40, "scripts": 20, "all": 200,
}
STEPS = {"watch": (watch, 300), "pubsub": (pubsub, 300)}


def run_family(family, proto, seed, count, ports):
    """Yields the differences of one family in one protocol."""
    maker = Maker(f"{seed} {family} {proto}")
    pair = Pair(*ports)
    try:
        pair.both("flushall")
        pair.both("script", "flush")
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


def run_steps(name, proto, seed, count, ports):
    step = STEPS[name][0]
    maker = Maker(f"{seed} {name} {proto}")
    pair, other = Pair(*ports), Pair(*ports)
    try:
        pair.both("flushall")
        pair.both("hello", str(proto))
        for _ in range(count):
            try:
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


def outcomes(cellar_port, seed, commands, only=None):
    """Runs all parts; yields (name, problem or None)."""
    with redis_server() as redis_port:
        for name, proto, run, count in parts(commands, only):
            found, kinds = [], set()
            try:
                for args, text in run(name, proto, seed, count, (cellar_port, redis_port)):
                    kind = args[0].lower()
                    if kind not in kinds and len(found) < FAILURES_SHOWN:
                        found.append(text)
                    kinds.add(kind)
            except (OSError, ValueError) as problem:
                found.append(f"{type(problem).__name__}: {problem}")
            title = f"{name} in RESP{proto}, {count} commands, seed {seed}"
            yield title, "\n".join(found) or None


@contextlib.contextmanager
def redis_server():
    """A redis-server on a free port, stopped by its id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen([REDIS, *flags], stdout=subprocess.DEVNULL, cwd="/tmp")
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True, help="where Cellar listens for RESP")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--only", action="append", choices=[*FAMILIES, *STEPS])
    arguments = parser.parse_args()
    failed = False
    start = time.monotonic()
    for name, problem in outcomes(
        arguments.port, arguments.seed, arguments.commands, arguments.only
    ):
        failed |= problem is not None
        print(f"{'ok     ' if problem is None else 'DIFFERS'} {name}", flush=True)
        if problem:
            print("        " + problem.replace("\n", "\n        "), flush=True)
    print(f"seed {arguments.seed}, {time.monotonic() - start:.1f} s")
    sys.exit(failed)


if __name__ == "__main__":
    main()
