"""Copies all keys of a server to another by SCAN, PTTL, DUMP and RESTORE, as tools that move data do.

    foreign-clients/dumps.py FROM_PORT TO_PORT

foreign-clients/differential.py has values made in every form that redis-server keeps, copies them
to Cellar, by MIGRATE too, compares, and copies them back.
"""

import sys

# How redis-server keeps collections, by its settings: packed, or not.
FORMS = [
    {},
    {
        "hash-max-listpack-entries": "0",
        "zset-max-listpack-entries": "0",
        "set-max-intset-entries": "0",
        "list-max-listpack-size": "1",
    },
    {"list-max-listpack-size": "-1", "hash-max-listpack-value": "100000"},
    {"list-max-listpack-size": "3", "list-compress-depth": "1", "rdbcompression": "no"},
]
USUAL = {
    "hash-max-listpack-entries": "128",
    "hash-max-listpack-value": "64",
    "zset-max-listpack-entries": "128",
    "set-max-intset-entries": "512",
    "list-max-listpack-size": "-2",
    "list-compress-depth": "0",
    "rdbcompression": "yes",
}
INTEGERS = [0, 1, -1, 12, 13, 63, 127, 128, -128, -129, 4095, 4096, -4096, -4097, 32767, -32768]
INTEGERS += [32768, 8388607, -8388608, 8388608, 2147483647, -2147483648, 2147483648, -(1 << 63)]
INTEGERS += [(1 << 63) - 1]
LENGTHS = [0, 1, 2, 11, 20, 21, 63, 64, 65, 127, 253, 254, 255, 4095, 4096, 16383, 16384, 70000]
COUNTS = [1, 2, 3, 10, 127, 128, 129, 130, 513, 2000]
COPIED_TOGETHER = 100


def text(random):
    """An integer, bytes that repeat themselves and can be compressed, or others."""
    way = random.random()
    if way < 0.4:
        return b"%d" % random.choice(INTEGERS)
    length = random.choice(LENGTHS[:12] if random.random() < 0.9 else LENGTHS)
    if way < 0.7:
        return (b"ab%d" % random.randrange(100) * (length // 3 + 1))[:length]
    return random.randbytes(length)


def value(random):
    """The command that stores a value of some kind and size, without the key."""
    count = random.choice(COUNTS)
    kind = random.choice(["set", "rpush", "sadd", "integers", "zadd", "hset"])
    if kind == "set":
        length = random.choice([*LENGTHS, 200_000])
        return ["set", random.choice([text(random), b"%d" % random.choice(INTEGERS), b"x" * length])]
    if kind == "rpush":
        return ["rpush", *[text(random) for _ in range(count)]]
    if kind == "sadd":
        return ["sadd", *[text(random) for _ in range(count)]]
    if kind == "integers":
        width = random.choice([10, 1 << 15, 1 << 31, 1 << 62])
        return ["sadd", *[b"%d" % random.randrange(-width, width) for _ in range(count)]]
    names = {text(random) for _ in range(count)}
    if kind == "hset":
        return ["hset", *[word for name in names for word in (name, text(random))]]
    scores = ["0", "1", "-1", "1.5", "inf", "-inf", "3479099956230698", "1e300", "-0.1"]
    return ["zadd", *[word for name in names for word in (random.choice(scores), name)]]


def fill(connection, random, keys):
    """Stores values under so many keys, some with a time to live."""
    form = {**USUAL, **random.choice(FORMS)}
    for name, setting in form.items():
        connection.call("config", "set", name, setting)
    for number in range(keys):
        command, *args = value(random)
        connection.call(command, f"key:{number}", *args)
        if random.random() < 0.3:
            connection.call("expire", f"key:{number}", str(random.randrange(1_000, 100_000)))


def batches(connection):
    """All keys, some at a time."""
    cursor = b"0"
    while True:
        cursor, keys = connection.call("scan", cursor, "count", str(COPIED_TOGETHER))
        yield keys
        if cursor == b"0":
            return


def copy(source, target):
    """Copies all keys of a database; how many those were."""
    copied = set()
    for keys in batches(source):
        for key in keys:
            left, dump = source.call("pttl", key), source.call("dump", key)
            if dump is None:
                continue
            ttl = str(max(left, 0))
            answer = target.call("restore", key, ttl, dump, "REPLACE")
            if answer != "OK":
                raise ValueError(f"RESTORE of {key!r}: {answer!r}, {dump[:80]!r}")
            copied.add(key)
    return len(copied)


def migrate(source, port):
    """Has a redis-server copy all keys of its database to the server at `port`."""
    for keys in batches(source):
        flags = ["0", "5000", "copy", "replace", "keys"]
        answer = source.call("migrate", "127.0.0.1", str(port), "", *flags, *keys)
        if answer not in ("OK", "NOKEY"):
            raise ValueError(f"MIGRATE: {answer!r}")


def main():
    from differential import Connection

    source, target = (Connection(int(port)) for port in sys.argv[1:3])
    print(f"{copy(source, target)} keys copied")


if __name__ == "__main__":
    main()
