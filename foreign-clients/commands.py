"""Random commands of Redis's protocol, made from one seed; for foreign-clients/differential.py.

A family is a group of commands with the arguments that suit them. Some are spoiled: an argument is
missing, is one too many, or is nonsense; some use keys that hold another kind of value.
"""

import random
import time

# How many commands are sent in one go.
PART = 250

VALUES = [
    "",
    "a",
    "b",
    "c",
    "hello",
    "hello world",
    "10",
    "-5",
    "0",
    "3.5",
    "0.1",
    "-2.25",
    "abc\r\n\x00d",
    "x" * 100,
    " 12",
    "12\t",
    "1e3",
    "9223372036854775807",
    "-9223372036854775808",
    "007",
    "mynewtext",
]
INTEGERS = ["0", "1", "2", "-1", "-2", "3", "5", "10", "100", "-100"]
ODD_INTEGERS = [
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "abc",
    "",
    "1.5",
    " 1",
    "+1",
    "01",
    "-0",
    "1 ",
    "4294967296",
]
# Such as are exact in binary, too.
FLOATS = ["1", "-1", "0.5", "1.25", "3", "-2.75", "0.125", "100.5", "1e2", "25e-2"]
ODD_FLOATS = ["abc", "", "nan", "inf", "-inf", " 1", "1 ", "1e400", "1.2.3"]
TTLS = ["100", "1000", "5000", "100000"]
ODD_TTLS = [
    "0",
    "-1",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "abc",
    "",
    "1.5",
    "9999999999",
    "9223372036854776",
]
# More than 80-bit floats and 64-bit numbers hold.
HUGE = "99999999999999999999"
JUNK = ["", "abc", "-1", HUGE, "nan", "\r\n", "*", "EX", "NX", "LIMIT", "0"]
PATTERNS = ["*", "s*", "h?", "[se]*", "k0", "[^s]*", "\\*", "*0", "", "z[0-2]"]
# Places of members, each in no other's; some are near the border of a cell or of the map.
PLACES = [
    (round(angle * 47.3 % 360 - 180, 6), round(angle * 23.9 % 168 - 84, 6)) for angle in range(40)
] + [
    (13.361389, 38.115556),
    (15.087269, 37.502669),
    (179.999999, 0.25),
    (-180, 85.05112878),
    (-0.25, -85.05),
    (2.3522, 48.8566),
    (2.35221, 48.85661),
]
UNITS = ["m", "km", "mi", "ft", "KM"]
MEMBERS = ["a", "b", "c", "d", "e", "f", "1", "2", "3", "10", "-7", "long" * 20, ""]
FIELDS = ["f1", "f2", "f3", "f4", "n", "x", "", "long" * 20]
OPTIONS = [
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "NX",
    "XX",
    "GET",
    "KEEPTTL",
    "PERSIST",
    "GT",
    "LT",
    "CH",
    "INCR",
]

# Families whose collections may be large: the first letter of their keys, and what stores elements.
KINDS = {"hashes": "h", "sets": "e", "sorted_sets": "z", "lists": "l", "geo": "g"}
FILLED = {"hashes": "hset", "sets": "sadd", "sorted_sets": "zadd", "lists": "rpush", "geo": "geoadd"}
# Elements that one command stores.
PIECE = 500


class Maker:
    """Makes commands, all from one random source."""

    def __init__(self, seed, elements=0):
        self.random = random.Random(seed)
        self.choice = self.random.choice
        # With a number of elements half of the members are of a large collection; see `fill`.
        self.elements = elements
        names = [f"m{number}" for number in range(elements * 5 // 4)]
        self.members = MEMBERS + names
        self.fields = FIELDS + names
        self.unix_s = int(time.time())
        # Whether the other server is a Valkey.
        self.beside_valkey = False

    def often(self, usual, odd, share=0.12):
        return self.choice(odd if self.random.random() < share else usual)

    def key(self, kind):
        if self.random.random() < 0.12:
            kind = self.choice("sheznkl")
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
        return self.choice(
            [
                lambda: ["set", k(), self.value()],
                lambda: [
                    "set",
                    k(),
                    self.value(),
                    *self.expiry(["KEEPTTL"]),
                    *self.some("NX", "XX", "GET"),
                ],
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
                lambda: [
                    "setrange",
                    k(),
                    self.often(["0", "1", "3", "10", "50"], ["-1", "abc", "536870912"]),
                    self.value(),
                ],
                lambda: ["lcs", k(), k(), *self.some("LEN", "IDX", "WITHMATCHLEN")],
                lambda: [
                    "lcs",
                    k(),
                    k(),
                    "IDX",
                    "MINMATCHLEN",
                    self.integer(),
                    *self.some("WITHMATCHLEN"),
                ],
                lambda: [
                    "getbit",
                    k(),
                    self.often(["0", "1", "7", "100"], ["-1", "4294967296", "a"]),
                ],
                lambda: [
                    "setbit",
                    k(),
                    self.often(["0", "1", "7", "100"], ["-1", "4294967296", "a"]),
                    self.often(["0", "1"], ["2", "-1", "a"]),
                ],
            ]
        )()

    def bits(self):
        k = lambda: self.key("s")
        unit = lambda: self.choice([[], [], ["BIT"], ["BYTE"]])
        kind = lambda: self.often(["u8", "i8", "u1", "i5", "u63", "i64"], ["u64", "i65", "8", ""])
        at = lambda: self.often(["0", "1", "7", "100", "#0", "#3"], ["-1", "4294967296", "#", "a"])
        field = lambda: self.choice(
            [
                lambda: ["GET", kind(), at()],
                lambda: ["SET", kind(), at(), self.integer()],
                lambda: ["INCRBY", kind(), at(), self.integer()],
                lambda: ["OVERFLOW", self.often(["WRAP", "SAT", "FAIL"], ["X"])],
            ]
        )()
        fields = lambda: [word for _ in range(self.random.randint(0, 4)) for word in field()]
        return self.choice(
            [
                lambda: ["set", k(), self.value()],
                lambda: ["bitcount", k()],
                lambda: ["bitcount", k(), self.integer(), self.integer(), *unit()],
                lambda: ["bitpos", k(), self.often(["0", "1"], ["2", "a"])],
                lambda: ["bitpos", k(), self.choice("01"), self.integer()],
                lambda: ["bitpos", k(), self.choice("01"), self.integer(), self.integer(), *unit()],
                lambda: ["bitop", self.often(["and", "or", "xor"], ["x"]), k(), *self.keys("s")],
                lambda: ["bitop", "not", k(), *self.keys("s", 2)],
                lambda: ["bitfield", k(), *fields()],
                lambda: ["bitfield_ro", k(), *fields()],
                lambda: ["get", k()],
            ]
        )()

    def sketches(self):
        k = lambda: f"p{self.random.randrange(5)}"
        element = lambda: self.choice([self.value(), str(self.random.randrange(3_000))])
        elements = lambda: [element() for _ in range(self.random.randint(0, 9))]
        keys = lambda: [k() for _ in range(self.random.randint(1, 3))]
        return self.choice(
            [
                lambda: ["pfadd", k(), *elements()],
                lambda: ["pfadd", k(), *elements()],
                lambda: ["pfadd", k(), *[str(self.random.randrange(1 << 40)) for _ in range(60)]],
                lambda: ["pfcount", k()],
                lambda: ["pfcount", *keys(), self.key("s")],
                lambda: ["pfcount", *keys()],
                lambda: ["pfmerge", k(), *keys()],
                lambda: ["pfmerge", k(), self.key("s")],
                lambda: ["pfadd", self.key("s"), *elements()],
                # The bytes are the same, with the count that was told last.
                lambda: ["get", k()],
                lambda: ["set", k(), "HYLL" + self.value()] if self.random.random() < 0.1 else ["ping"],
                lambda: ["del", k()] if self.random.random() < 0.3 else ["strlen", k()],
            ]
        )()

    def numbers(self):
        k, d = lambda: self.key("n"), lambda: f"d{self.random.randrange(3)}"
        return self.choice(
            [
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
            ]
        )()

    def generic(self):
        k = lambda: self.key(self.choice("sheznkl"))
        expire = self.choice(["expire", "pexpire", "expireat", "pexpireat"])
        unit = {"expire": "EX", "pexpire": "PX", "expireat": "EXAT", "pexpireat": "PXAT"}[expire]
        return self.choice(
            [
                lambda: [expire, k(), self.ttl(unit), *self.some("NX", "XX", "GT", "LT")],
                lambda: [expire, k(), self.ttl(unit)],
                lambda: [self.choice(["ttl", "pttl", "expiretime", "pexpiretime"]), k()],
                lambda: ["persist", k()],
                lambda: ["del", *self.keys(self.choice("sheznkl"))],
                lambda: ["unlink", *self.keys(self.choice("sheznkl"))],
                lambda: ["exists", k(), k(), k()],
                lambda: ["touch", k(), k()],
                lambda: ["type", k()],
                lambda: ["rename", k(), k()],
                lambda: ["renamenx", k(), k()],
                lambda: ["copy", k(), k(), *self.some("REPLACE")],
                lambda: [
                    "copy",
                    k(),
                    k(),
                    "DB",
                    self.often(["0", "1", "2"], ["-1", "99", "x"]),
                    *self.some("REPLACE"),
                ],
                lambda: ["move", k(), self.often(["1", "2"], ["0", "99", "-1", "x"])],
                lambda: ["select", self.often(["0", "1", "2"], ["16", "-1", "x", "99999999999"])],
                lambda: [
                    "swapdb",
                    self.often(["0", "1", "2"], ["99", "x"]),
                    self.choice(["0", "1", "2"]),
                ],
                lambda: ["randomkey"],
                lambda: ["keys", self.choice(PATTERNS)],
                lambda: ["dbsize"],
                lambda: (
                    [self.choice(["flushdb", "flushall"]), *self.some("ASYNC", "SYNC")]
                    if self.random.random() < 0.2
                    else ["dbsize"]
                ),
                lambda: ["object", self.choice(["refcount", "idletime", "nosuch"]), k()],
                lambda: ["memory", "usage", k(), *self.choice([[], ["SAMPLES", self.integer()]])],
                lambda: ["set", k(), self.value()],
                lambda: ["wait", "0", "0"],
            ]
        )()

    def hashes(self):
        k, f = lambda: self.key("h"), lambda: self.choice(self.fields)
        fields = lambda: [f() for _ in range(self.random.randint(1, 4))]
        pairs = lambda: [
            word
            for field in fields()
            for word in (field, self.choice(FLOATS if field == "x" else VALUES))
        ]
        return self.choice(
            [
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
                lambda: [
                    "hrandfield",
                    k(),
                    self.often(["100", "-5", "0", "2"], ["abc", ""]),
                    *self.some("WITHVALUES"),
                ],
                lambda: ["hscan", k(), "0", "COUNT", "1000", *self.match()],
            ]
        )()

    def newer(self):
        """Commands that Redis 7.0 lacks and Valkey 9.1 has."""
        k, f, s = lambda: self.key("h"), lambda: self.choice(self.fields), lambda: self.key("s")
        count = lambda words: self.often([str(words)], ["0", "-1", "x", str(words + 1)], 0.05)
        conditions = lambda *words: [self.choice(words)] if self.random.random() < 0.4 else []

        def fields(least=1):
            named = [f() for _ in range(self.random.randint(least, 4))]
            return ["FIELDS", count(len(named)), *named]

        def pairs(named):
            return [word for name in named for word in (name, self.value())]

        def set_fields():
            named = [f() for _ in range(self.random.randint(1, 3))]
            return ["FIELDS", count(len(named)), *pairs(named)]

        def set_keys():
            named = self.keys("s")
            return ["msetex", count(len(named)), *pairs(named)]

        def polygon():
            # Valkey finds only some of the members in an outline around half of the world.
            corners = self.often([3, 4, 5], [2], 0.05)
            middle = self.choice([place for place in PLACES if max(map(abs, place)) < 60])
            shifts = [[self.random.uniform(-9, 9) for _ in range(2)] for _ in range(corners)]
            places = ((middle[0] + east, middle[1] + north) for east, north in shifts)
            return [count(corners), *(f"{angle:.4f}" for place in places for angle in place)]

        retime = lambda: self.choice(["hexpire", "hpexpire", "hexpireat", "hpexpireat"])
        unit = {"hexpire": "EX", "hpexpire": "PX", "hexpireat": "EXAT", "hpexpireat": "PXAT"}
        times = ["httl", "hpttl", "hexpiretime", "hpexpiretime"]
        expiry = lambda *extra: self.expiry(extra) if self.random.random() < 0.6 else []

        def retimed():
            name = retime()
            condition, ttl = conditions("NX", "XX", "GT", "LT"), self.ttl(unit[name])
            if condition in (["GT"], ["LT"]):
                # No two are equal but for the moment at which they are counted from.
                ttl = str(self.random.randrange(10**8, 10**9))
            return [name, k(), ttl, *condition, *fields()]

        return self.choice(
            [
                lambda: ["hset", k(), *pairs([f(), f(), f()])],
                lambda: ["hset", k(), *pairs([f(), f(), f()])],
                retimed,
                retimed,
                lambda: [self.choice(times), k(), *fields()],
                lambda: [self.choice(times), k(), *fields()],
                lambda: ["hpersist", k(), *fields()],
                lambda: ["hgetex", k(), *expiry("PERSIST"), *fields()],
                lambda: [
                    *["hsetex", k(), *conditions("NX", "XX"), *conditions("FNX", "FXX")],
                    *[*expiry("KEEPTTL"), *set_fields()],
                ],
                lambda: ["hgetdel", k(), *fields()],
                lambda: ["hdel", k(), f()],
                lambda: ["hincrby", k(), "n", self.integer()],
                lambda: ["hgetall", k()],
                lambda: ["hlen", k()],
                lambda: ["set", s(), self.value()],
                lambda: ["set", s(), self.value(), "IFEQ", self.value(), *self.some("GET")],
                lambda: ["set", s(), self.value(), *self.expiry(), "IFEQ", self.value()],
                lambda: ["delifeq", s(), self.value()],
                lambda: [*set_keys(), *conditions("NX", "XX"), *expiry("KEEPTTL")],
                lambda: [*set_keys()],
                lambda: ["get", s()],
                lambda: ["geoadd", self.key("g"), *self.placed(), *self.placed()],
                lambda: [
                    *["geosearch", self.key("g"), "BYPOLYGON", *polygon()],
                    *self.some("WITHDIST", "WITHCOORD", "WITHHASH"),
                ],
                lambda: ["clusterscan", "0"],
            ]
        )()

    def match(self):
        return (
            ["MATCH", self.choice(["*", "f*", "?", "[a-c]"])] if self.random.random() < 0.4 else []
        )

    def sets(self):
        k, m = lambda: self.key("e"), lambda: self.choice(self.members)
        members = lambda: [m() for _ in range(self.random.randint(1, 5))]
        return self.choice(
            [
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
                lambda: [
                    self.choice(["sunionstore", "sinterstore", "sdiffstore"]),
                    k(),
                    *self.keys("e", 3),
                ],
                lambda: [
                    "sintercard",
                    self.often(["1", "2"], ["0", "-1", "3", "x"]),
                    *self.keys("e", 2),
                    *(["LIMIT", self.integer()] if self.random.random() < 0.4 else []),
                ],
                lambda: ["sscan", k(), "0", "COUNT", "1000", *self.match()],
            ]
        )()

    def score(self):
        return self.often(
            ["1", "2", "3", "2.5", "-1", "10", "0", "inf", "-inf"], ODD_FLOATS[:3], 0.06
        )

    def bound(self):
        text = self.often(["0", "1", "2", "3", "-inf", "+inf", "2.5"], ["abc"], 0.06)
        return "(" + text if self.random.random() < 0.3 else text

    def lex(self):
        return self.often(["-", "+", "[a", "(a", "[c", "(d", "[e"], ["a", "", "["], 0.08)

    def limit(self):
        if self.random.random() < 0.6:
            return []
        return [
            "LIMIT",
            # Where a negative one begins depends on how Valkey keeps the sorted set.
            self.often(["0", "1", "2"], ["x"] if self.beside_valkey else ["-1", "x"]),
            self.often(["1", "2", "-1"], ["x"]),
        ]

    def counted(self):
        """A number of keys, mostly the right one, and the keys of sorted sets and sets."""
        keys = [self.key(self.choice("zzze")) for _ in range(2)]
        return [self.often(["2"], ["1", "3", "0", "-1", "x"]), *keys]

    def joined(self):
        weights = ["WEIGHTS", self.score(), self.often(["1", "2", "-1"], ["x"])]
        aggregate = ["AGGREGATE", self.often(["SUM", "MIN", "MAX"], ["AVG"])]
        return self.choice([[], weights, aggregate, weights + aggregate])

    def sorted_sets(self):
        k, m = lambda: self.key("z"), lambda: self.choice(self.members)
        l = lambda: f"q{self.random.randrange(3)}"
        pairs = lambda: [w for _ in range(self.random.randint(1, 4)) for w in (self.score(), m())]
        members = lambda: [m() for _ in range(self.random.randint(1, 4))]
        scores = lambda: self.some("WITHSCORES")
        return self.choice(
            [
                lambda: ["zadd", k(), *pairs()],
                lambda: ["zadd", k(), *pairs()],
                lambda: ["zadd", k(), *self.some("NX", "XX", "GT", "LT", "CH"), *pairs()],
                lambda: [
                    "zadd",
                    k(),
                    *self.some("NX", "XX", "GT", "LT"),
                    "INCR",
                    self.score(),
                    m(),
                ],
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
                lambda: [
                    "zrange",
                    k(),
                    self.integer(),
                    self.integer(),
                    *self.some("REV"),
                    *scores(),
                ],
                lambda: [
                    "zrange",
                    k(),
                    self.bound(),
                    self.bound(),
                    "BYSCORE",
                    *self.some("REV"),
                    *self.limit(),
                    *scores(),
                ],
                lambda: [
                    "zrange",
                    l(),
                    self.lex(),
                    self.lex(),
                    "BYLEX",
                    *self.some("REV"),
                    *self.limit(),
                ],
                lambda: ["zrevrange", k(), self.integer(), self.integer(), *scores()],
                lambda: [
                    self.choice(["zrangebyscore", "zrevrangebyscore"]),
                    k(),
                    self.bound(),
                    self.bound(),
                    *scores(),
                    *self.limit(),
                ],
                lambda: [
                    self.choice(["zrangebylex", "zrevrangebylex"]),
                    l(),
                    self.lex(),
                    self.lex(),
                    *self.limit(),
                ],
                lambda: ["zremrangebyscore", k(), self.bound(), self.bound()],
                lambda: ["zremrangebyrank", k(), self.integer(), self.integer()],
                lambda: ["zremrangebylex", l(), self.lex(), self.lex()],
                lambda: [self.choice(["zpopmin", "zpopmax"]), k()],
                lambda: [
                    self.choice(["zpopmin", "zpopmax"]),
                    k(),
                    self.often(["1", "2", "0"], ["-1", "x"]),
                ],
                lambda: ["zrandmember", k(), self.often(["100", "-5", "0"], ["abc"])],
                lambda: [
                    self.choice(["zunion", "zinter"]),
                    *self.counted(),
                    *self.joined(),
                    *scores(),
                ],
                lambda: ["zdiff", *self.counted(), *scores()],
                lambda: ["zintercard", *self.counted(), *self.choice([[], ["LIMIT", "1"]])],
                lambda: [
                    self.choice(["zunionstore", "zinterstore"]),
                    k(),
                    *self.counted(),
                    *self.joined(),
                ],
                lambda: [
                    "zrangestore",
                    k(),
                    k(),
                    self.bound(),
                    self.bound(),
                    "BYSCORE",
                    *self.some("REV"),
                    *self.limit(),
                ],
                lambda: ["zrangestore", k(), k(), self.integer(), self.integer(), *self.some("REV")],
                lambda: ["zdiffstore", k(), *self.counted()],
                lambda: [
                    "zmpop",
                    *self.counted(),
                    self.choice(["MIN", "MAX"]),
                    *self.choice([[], ["COUNT", self.often(["1", "3"], ["0", "x"])]]),
                ],
                lambda: ["zscan", k(), "0", "COUNT", "1000", *self.match()],
            ]
        )()

    def sorting(self):
        k = lambda: self.key(self.choice("le"))
        n = lambda: f"w{self.random.randrange(3)}"
        element = lambda: self.choice(["1", "2", "3", "10", "-7", "2.5", "03", "1e1"])
        elements = lambda: [element() for _ in range(self.random.randint(1, 6))]
        pattern = lambda: self.often(
            ["s*", "h*->f1", "h*->x", "w*", "*", "h*->"], ["none", "s**", "->*->", "*->"]
        )
        by = lambda: self.choice([[], [], ["BY", pattern()], ["BY", "nosort"]])
        get = lambda: self.choice([[], [], ["GET", pattern()], ["GET", "#", "GET", pattern()]])
        rest = lambda: [*self.limit(), *self.some("ASC", "DESC", "ALPHA")]
        return self.choice(
            [
                lambda: ["rpush", n(), *elements()],
                lambda: ["lpop", n()],
                lambda: ["set", f"s{element()}", self.choice(["1", "9", "-4", "2.5", "x", " 8", ""])],
                lambda: ["hset", f"h{element()}", "f1", element(), "x", self.choice(self.members)],
                lambda: ["sort", n(), *self.limit(), *self.some("ASC", "DESC")],
                lambda: ["sort", n(), *by(), *get(), *rest()],
                lambda: [self.choice(["sort", "sort_ro"]), n(), *by(), *get(), *rest()],
                lambda: ["sort_ro", k(), *rest()],
                lambda: ["sort", k(), "ALPHA", *get(), *rest()],
                lambda: ["sort", self.key("z"), "ALPHA", *rest()],
                lambda: ["sort", f"w{self.random.randrange(3)}", *by(), *get(), "STORE", n()],
                lambda: ["del", n()] if self.random.random() < 0.4 else ["lrange", n(), "0", "-1"],
            ]
        )()

    def place(self):
        """Longitude and latitude, as a rule of the world."""
        if self.random.random() < 0.05:
            return [self.float(), self.choice(["95", "-85.06", "x", "85.05112878", "nan"])]
        return [str(number) for number in self.choice(PLACES)]

    def placed(self):
        """A member and its place, which is always the same."""
        number = self.random.randrange(len(PLACES))
        return [*map(str, PLACES[number]), f"m{number}"]

    def geo(self):
        k, m = lambda: self.key("g"), lambda: f"m{self.random.randrange(len(PLACES))}"
        unit = lambda: self.often(UNITS, ["x", "miles"], 0.05)
        reach = lambda: self.often(
            ["0", "10", "1000", "3000", "500000", "5000000", "25000000", "0.5"], ["-1", "x"], 0.06
        )
        middle = lambda: self.choice([["FROMMEMBER", m()], ["FROMLONLAT", *self.place()]])
        outline = lambda: self.choice(
            [["BYRADIUS", reach(), unit()], ["BYBOX", reach(), reach(), unit()]]
        )
        count = lambda: self.choice(
            [[], [], ["COUNT", self.often(["1", "3", "100"], ["0", "x"])], ["COUNT", "100", "ANY"]]
        )
        # Of members that are as far, as after STOREDIST, any may be among the nearest.
        all_or_none = lambda: self.choice([[], ["COUNT", self.often(["100"], ["0", "x"])]])
        turn = lambda: self.choice([[], ["ASC"], ["DESC"]])
        shown = lambda: self.some("WITHDIST", "WITHHASH", "WITHCOORD")
        stored = lambda: self.choice([[], [self.choice(["STORE", "STOREDIST"]), k()]])
        places = lambda: [
            word for _ in range(self.random.randint(1, 4)) for word in self.placed()
        ]
        return self.choice(
            [
                lambda: ["geoadd", k(), *places()],
                lambda: ["geoadd", k(), *places()],
                lambda: ["geoadd", k(), *self.some("NX", "XX", "CH"), *places()],
                lambda: ["geoadd", k(), self.often(["1.5"], ["181", "x", "nan"]), "2.5", "somewhere"],
                lambda: ["geopos", k(), m(), m(), "nobody"],
                lambda: ["geohash", k(), m(), m(), "nobody"],
                lambda: ["geodist", k(), m(), m(), *self.choice([[], [unit()]])],
                lambda: ["geosearch", k(), *middle(), *outline(), *count(), *turn(), *shown()],
                lambda: ["geosearch", k(), *middle(), *outline(), *count(), *turn(), *shown()],
                lambda: [
                    "geosearchstore",
                    k(),
                    k(),
                    *middle(),
                    *outline(),
                    *all_or_none(),
                    *turn(),
                    *self.some("STOREDIST"),
                ],
                lambda: [
                    self.choice(["georadius", "georadius_ro"]),
                    k(),
                    *self.place(),
                    reach(),
                    unit(),
                    *count(),
                    *turn(),
                    *shown(),
                ],
                lambda: [
                    self.choice(["georadiusbymember", "georadiusbymember_ro"]),
                    k(),
                    m(),
                    reach(),
                    unit(),
                    *count(),
                    *turn(),
                    *shown(),
                ],
                lambda: [
                    *["georadius", k(), *self.place()],
                    *[reach(), unit(), *all_or_none(), *stored()],
                ],
                lambda: [
                    *["georadiusbymember", k(), m()],
                    *[reach(), unit(), *all_or_none(), *stored()],
                ],
                lambda: ["zscore", k(), m()],
                lambda: ["zrem", k(), m(), m()],
                lambda: ["zrange", k(), "0", "-1", "WITHSCORES"],
            ]
        )()

    def lists(self):
        k, m = lambda: self.key("l"), lambda: self.choice(self.members)
        members = lambda: [m() for _ in range(self.random.randint(1, 5))]
        side = lambda: self.often(["LEFT", "RIGHT", "left"], ["UP"])
        count = lambda: self.often(["1", "2", "0"], ["-1", "x"])
        return self.choice(
            [
                lambda: [self.choice(["lpush", "rpush"]), k(), *members()],
                lambda: [self.choice(["lpush", "rpush"]), k(), *members()],
                lambda: [self.choice(["lpushx", "rpushx"]), k(), *members()],
                lambda: [self.choice(["lpop", "rpop"]), k()],
                lambda: [self.choice(["lpop", "rpop"]), k(), count()],
                lambda: ["llen", k()],
                lambda: ["lindex", k(), self.integer()],
                lambda: ["lrange", k(), "0", "-1"],
                lambda: ["lrange", k(), self.integer(), self.integer()],
                lambda: ["ltrim", k(), self.integer(), self.integer()],
                lambda: ["lset", k(), self.integer(), m()],
                lambda: ["linsert", k(), self.often(["BEFORE", "AFTER"], ["x"]), m(), m()],
                lambda: ["lrem", k(), self.integer(), m()],
                lambda: ["lpos", k(), m()],
                lambda: [
                    "lpos",
                    k(),
                    m(),
                    *self.choice([[], ["RANK", self.often(["1", "-1", "2"], ["0", "x"])]]),
                    *self.choice([[], ["COUNT", count()], ["COUNT"]]),
                    *self.choice([[], ["MAXLEN", count()]]),
                ],
                lambda: ["lmove", k(), k(), side(), side()],
                lambda: ["rpoplpush", k(), k()],
                lambda: ["lmpop", "2", k(), k(), side(), *self.choice([[], ["COUNT", count()]])],
                lambda: ["type", k()],
            ]
        )()

    def queue(self):
        return self.often(["q0", "q1", "q2"], ["s0"])

    def waiting(self):
        """A command that waits until there is something, or that is refused."""
        queue, side = self.queue, lambda: self.choice(["LEFT", "RIGHT"])
        several = lambda: [queue() for _ in range(self.random.randint(1, 3))]
        counted = lambda names: [str(len(names)), *names]
        count = lambda: self.choice([[], ["COUNT", "1"], ["COUNT", "3"]])
        never = lambda: self.often(["0"], ["x", "-1"])
        return self.choice(
            [
                lambda: [self.choice(["blpop", "brpop"]), *several(), never()],
                lambda: [self.choice(["bzpopmin", "bzpopmax"]), *several(), never()],
                lambda: ["blmove", queue(), queue(), side(), side(), never()],
                lambda: ["brpoplpush", queue(), queue(), never()],
                lambda: ["blmpop", never(), *counted(several()), side(), *count()],
                lambda: [
                    "bzmpop",
                    never(),
                    *counted(several()),
                    self.choice(["MIN", "MAX"]),
                    *count(),
                ],
            ]
        )()

    def filling(self):
        """Commands that store and take what is waited for, some of them as one.

        SWAPDB shows several keys at once; in which order those who wait get them is chance.
        """
        queue, m = self.queue, lambda: self.choice(self.members)
        side = lambda: self.choice(["LEFT", "RIGHT"])
        members = lambda: [m() for _ in range(self.random.randint(1, 4))]
        one = lambda: self.choice(
            [
                lambda: [self.choice(["lpush", "rpush"]), queue(), *members()],
                lambda: [self.choice(["lpush", "rpush"]), queue(), *members()],
                lambda: ["zadd", queue(), str(self.random.randint(0, 9)), m(), "5", m()],
                lambda: [self.choice(["lpop", "rpop", "zpopmin", "llen", "type", "del"]), queue()],
                lambda: ["lmove", queue(), queue(), side(), side()],
                lambda: ["rename", queue(), queue()],
                lambda: ["copy", queue(), queue()],
                lambda: ["zunionstore", queue(), "2", queue(), queue()],
                lambda: ["move", queue(), "1"],
                lambda: ["blpop", queue(), "0.01"],
                lambda: [
                    "eval",
                    "redis.call('rpush',KEYS[1],'x','y') return redis.call('lpop',KEYS[1])",
                    "1",
                    self.choice(["q0", "q1", "q2"]),
                ],
            ]
        )()
        is_one = self.random.random() < 0.4
        commands = []
        for _ in range(self.random.randint(1, 4) if is_one else 1):
            command = one()
            if command[0] == "zunionstore":
                # Redis 7.0 does not tell those who wait of what is stored over a list.
                commands.append(["del", command[1]])
            commands.append(command)
        return [["multi"], *commands, ["exec"]] if is_one else commands

    def server(self):
        return self.choice(
            [
                lambda: ["ping", *self.some("x")],
                lambda: ["echo", self.value()],
                lambda: ["nosuch", self.value()],
                lambda: ["lpush2", self.value(), "x" * 130, "y" * 130],
                lambda: ["config", self.choice(["nosuch", "get", "set"])],
                lambda: [
                    "config",
                    "set",
                    self.choice(["nosuch", "active-expire-effort", "slowlog-max-len"]),
                    self.choice(["x", "10"]),
                ],
                lambda: ["config", "get", self.choice(["save", "slowlog-max-len", "hz", "nosuch"])],
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
                lambda: [
                    "auth",
                    *[self.choice(["default", "x"]) for _ in range(self.random.randint(0, 3))],
                ],
                lambda: ["acl", self.choice(["whoami", "list", "nosuch"])],
                lambda: ["debug", "sleep", "0"],
                lambda: ["shutdown", "nosuch"],
                lambda: ["time", "x"],
                lambda: ["hello", self.choice(["4", "x", "1"])],
                lambda: ["unwatch"],
            ]
        )()

    def scripts(self):
        s, n = self.key("s"), self.key("n")
        return self.choice(
            [
                lambda: ["eval", "return redis.call('get', KEYS[1])", "1", s],
                lambda: [
                    "eval",
                    "return redis.call('set', KEYS[1], ARGV[1])",
                    "1",
                    s,
                    self.value(),
                ],
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
                lambda: [
                    "eval",
                    "if redis.call('get',KEYS[1]) == ARGV[1] then return "
                    "redis.call('del',KEYS[1]) else return 0 end",
                    "1",
                    s,
                    self.value(),
                ],
                lambda: ["eval", "return 1", self.choice(["x", "-1", "5"]), s],
                lambda: ["evalsha", "f" * 40, "0"],
                lambda: ["evalsha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
                lambda: ["script", "load", "return 1"],
                lambda: ["script", "exists", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "f" * 40],
                lambda: ["script", "flush"] if self.random.random() < 0.3 else ["script", "nosuch"],
                lambda: ["eval", "return redis.call('type', KEYS[1])", "1", self.key("h")],
            ]
        )()

    def functions(self):
        """Libraries, calls and what is wrong about both; redis-server 7.0 ends when a library has
        two functions whose names differ in case only, so none has."""
        s, n = self.key("s"), self.key("n")
        library = self.choice(["one", "two", "Three", "o-n"])
        name = self.choice(["f", "g", "H", "h"])
        body = self.choice(
            [
                "return {keys, args}",
                "return redis.call('set', keys[1], args[1])",
                "return redis.pcall('incr', keys[1])",
                "return redis.call('get', keys[1] or 'nothing')",
                "return redis.error_reply('MY error')",
                "redis.setresp(3) return redis.call('hgetall', 'nosuch')",
                "error('oops')",
                "error({err='MY oops'})",
                "return KEYS[1]",
                "x = 1",
                "return redis.call('fcall', 'f', '0')",
                "return redis.register_function",
            ]
        )
        callback = f"function(keys, args) {body} end"
        flags = self.choice(["", "'no-writes'", "'allow-oom', 'no-writes'", "'x'", "1"])
        register = self.choice(
            [
                f"redis.register_function('{name}', {callback})",
                f"redis.register_function('{name}', {callback})",
                f"redis.register_function{{function_name='{name}', callback={callback}, "
                f"flags={{{flags}}}}}",
                f"redis.register_function{{function_name='{name}', callback={callback}, "
                "description='what it does'}",
                f"redis.register_function('{name}')",
                f"redis.register_function({callback}, '{name}')",
                f"redis.register_function('{name}', {callback}, 1)",
                f"redis.register_function('{name}-', {callback})",
                f"redis.register_function{{function_name='{name}', call={callback}}}",
                "return 1",
                "return redis.call('get', 'x')",
                "pcall(redis.log)",
                "foo bar",
            ]
        )
        head = self.choice([f"#!lua name={library}"] * 9 + ["#!lua", "#!js name=x", "", "#! lua"])
        keys = self.choice([["0"], ["1", s], ["2", s, n], ["x"], ["-1"], ["3", s]])
        return self.choice(
            [
                lambda: ["function", "load", f"{head}\n{register}"],
                lambda: ["function", "load", "replace", f"{head}\n{register}"],
                lambda: ["function", "load", self.choice(["x", "replace"]), f"{head} {register}"],
                lambda: ["fcall", name, *keys, self.value()],
                lambda: ["fcall", name, *keys],
                lambda: ["fcall_ro", name, *keys, self.value()],
                lambda: ["function", "list"],
                lambda: ["function", "list", "libraryname", self.choice(["o*", "t*", "*"])],
                lambda: ["function", "list", "withcode", *self.choice([[], ["x"]])],
                lambda: ["function", "stats"],
                lambda: ["function", "delete", library],
                lambda: ["function", "dump", "x"],
                lambda: ["function", "restore", self.value(), *self.choice([[], ["flush"], ["x"]])],
                lambda: ["function", "flush", *self.choice([[], ["sync"], ["async"], ["x"]])]
                if self.random.random() < 0.2
                else ["function", "kill"],
            ]
        )()

    def all(self):
        family = self.choice(
            [
                "strings",
                "bits",
                "sketches",
                "sorting",
                "numbers",
                "generic",
                "hashes",
                "sets",
                "sorted_sets",
                "geo",
                "lists",
                "server",
            ]
        )
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
        commands = [fixed(args, self.beside_valkey) for args in commands]
        return [sized(args) for args in commands] if self.elements else commands

    def fill(self, family):
        """Commands that make the first two keys of a family anew, with all elements."""
        for key in (f"{KINDS[family]}{number}" for number in range(2)):
            yield ["del", key]
            for first in range(0, self.elements, PIECE):
                numbers = range(first, min(first + PIECE, self.elements))
                words = (word for number in numbers for word in self.element(family, number))
                yield [FILLED[family], key, *words]

    def element(self, family, number):
        """The arguments that store this element."""
        name = f"m{number}"
        if family == "hashes":
            return name, self.choice(VALUES)
        if family == "sorted_sets":
            return str(number * 7919 % self.elements), name
        if family == "geo":
            # No two are as far from a third.
            return str(number * 47.30117 % 360 - 180), str(number * 23.90219 % 168 - 84), name
        return (name,)


def sized(args):
    """The command without what of a large collection chance would decide, or a cursor."""
    name = args[0].lower()
    if name.endswith("scan") or name == "spop":
        return ["exists", *args[1:2]]
    if name in ("zrandmember", "hrandfield", "srandmember") and len(args) > 2:
        args[2] = "-5"
    return args


def fixed(args, beside_valkey):
    """The command without what chance alone would decide or what is another server's."""
    name = args[0].lower()
    if beside_valkey and name == "lset" and args[2:3] and args[2].strip("-").isdigit() and len(args[2]) > 9:
        # Valkey cuts the index to 32 bits.
        return ["ping"]
    words = {arg.upper() for arg in args}
    reads_others = name in ("sort", "sort_ro") and bool({"BY", "GET"} & words) and "ALPHA" not in words
    if beside_valkey and (reads_others or name in ("lpush", "rpush") and "" in args[2:]):
        # SORT counts empty strings as zero; in Valkey they are errors.
        return ["ping"]
    if beside_valkey and name == "function" and "\r\n" in args:
        # Valkey repeats it in an error, whose line it ends.
        return ["ping"]
    if beside_valkey and name == "lrem" and args[2:3] == ["-9223372036854775808"]:
        # It is refused there.
        return ["ping"]
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
    if (
        name == "client"
        and len(args) > 1
        and args[1].lower() in ("reply", "pause", "kill", "tracking")
    ):
        return ["ping"]
    if name in ("quit", "reset", "subscribe", "psubscribe", "monitor"):
        return ["ping"]
    if name.endswith("scan") and "-1" in args[1:3]:
        # A negative cursor is a very large one in Redis.
        return ["ping"]
    if HUGE in args and (name.endswith("incrbyfloat") or args[1][:1] == "d" or "x" in args):
        # Sums with it differ: exact decimals here, 80-bit floats there.
        return ["ping"]
    by_score = name == "zcount" or name.endswith("byscore") or "BYSCORE" in args
    if by_score and {"", "("} & set(args[2:]):
        # Empty scores are numbers in Redis 7.0 and errors since Valkey 9.2.
        return ["ping"]
    by_name = name.endswith(("bylex", "lexcount")) or "BYLEX" in args
    if by_name and args[1:2] and args[1][:1] != "q":
        # A junk word became the key of a sorted set with any scores.
        return ["ping"]
    if name == "zadd" and args[1:2] and args[1][:1] == "q" and set(args[2::2]) != {"0"}:
        return ["ping"]
    if name == "config" and ("*" in args or args[1:3] == ["get", ""]):
        return ["ping"]
    if name[:1] == "h" and "FIELDS" in args and (args[-1] in OPTIONS or args[1] == "FIELDS"):
        # As in Redis 8.6 options may stand behind the fields; in Valkey they may not. And Valkey
        # takes the word for a key as well as for itself.
        return ["ping"]
    if name == "shutdown" and args[1:2] != ["nosuch"]:
        return ["ping"]
    return args
