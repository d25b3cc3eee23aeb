"""What was recorded: the parts that differ by nature are replaced, the rest is compared.

These parts are replaced, and no others, unless a row names more:
  versions    the server's version in `version`, HELLO and the binary protocol
  statistics  the answers to `stats` and INFO: each is one word, for its fields are the server's own
  cas         unique numbers of items, in `gets`, `cas` and the binary protocol
  ids         a connection's number in HELLO
  help        the texts that COMMAND DOCS returns
"""

import re
import struct

REQUEST, RESPONSE = 0x80, 0x81
HEADER = struct.Struct(">BBHBBHIIQ")
VERSION, STAT = 0x0B, 0x10
OPCODES = {
    0x00: "get", 0x01: "set", 0x02: "add", 0x03: "replace", 0x04: "delete", 0x05: "increment",
    0x06: "decrement", 0x07: "quit", 0x08: "flush", 0x09: "getq", 0x0A: "noop", 0x0B: "version",
    0x0C: "getk", 0x0D: "getkq", 0x0E: "append", 0x0F: "prepend", 0x10: "stat", 0x11: "setq",
    0x12: "addq", 0x14: "deleteq", 0x17: "quitq", 0x18: "flushq", 0x19: "appendq", 0x1C: "touch",
    0x1D: "gat", 0x20: "sasl list", 0x21: "sasl auth",
}  # fmt: skip
STORES = ("set", "add", "replace", "append", "prepend", "cas")
# A memcached time above this is a date.
RELATIVE_SECONDS_MAX = 30 * 24 * 3600
CONTAINERS = ("CONFIG", "CLIENT", "SCRIPT", "COMMAND", "LATENCY", "SLOWLOG", "MEMORY", "ACL",
              "CLUSTER", "OBJECT", "PUBSUB", "MODULE", "FUNCTION", "DEBUG")  # fmt: skip
DOCUMENTATION = b"*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n"
# Each pattern is replaced in both directions.
TEXT = (
    (rb"(?m)^VERSION [^\r\n]+", b"VERSION (version)"),
    (rb"(?m)^(VALUE \S+ \d+ \d+) \d+\r$", rb"\1 (cas)\r"),
    (rb"(?m)^(cas \S+ \d+ \d+ \d+) \d+", rb"\1 (cas)"),
    (rb"(?m)(?:^STAT [^\r\n]*\r\n)+", b"(stats)\r\n"),
    (rb"\$7\r\nversion\r\n\$\d+\r\n[^\r\n]+", b"version (version)"),
    (rb"\$2\r\nid\r\n:\d+", b"id (id)"),
)


def normal(exchanges, replaced):
    """The exchanges of one connection as they are compared."""
    return [
        (cleaned(sent, sent, replaced), cleaned(sent, answered, replaced))
        for sent, answered in exchanges
    ]


def cleaned(sent, data, replaced):
    """Bytes of one direction without what differs by nature."""
    if sent == DOCUMENTATION and data != sent:
        return b"(help)"
    if sent[:1] == bytes([REQUEST]):
        data = binary(data)
    else:
        data = info(data)
        for pattern, value in TEXT:
            data = re.sub(pattern, value, data)
    for pattern, value in replaced:
        data = re.sub(pattern, value, data)
    return data


def info(data):
    """Answers to INFO: a bulk string that begins with the title of a section."""
    at = 0
    while found := re.compile(rb"\$(\d+)\r\n(?=# )").search(data, at):
        end = found.end() + int(found.group(1))
        data = data[: found.start()] + b"(info)" + data[end:]
        at = found.start() + 6
    return data


def packets(data):
    """The packets of the binary protocol: opcode, header's fields, body."""
    at = 0
    while at + HEADER.size <= len(data):
        fields = HEADER.unpack_from(data, at)
        end = at + HEADER.size + fields[6]
        yield fields, data[at + HEADER.size : end]
        at = end


def binary(data):
    """Packets without cas, versions and statistics."""
    lines = []
    for fields, body in packets(data):
        magic, opcode, key_bytes, extra_bytes, _, status, _, opaque, _ = fields
        if magic == RESPONSE and opcode == VERSION:
            body = b"(version)"
        if magic == RESPONSE and opcode == STAT and body:
            body, key_bytes = b"(stats)", 0
        word = f"{OPCODES.get(opcode, opcode)} {key_bytes} {extra_bytes} {status} {opaque} "
        line = word.encode() + body + b"\n"
        if not lines or line != lines[-1]:
            lines.append(line)
    return b"".join(lines)


def commands(exchanges):
    """The commands of one connection, and the kinds of deadlines that they carry."""
    sent = b"".join(sent for sent, _ in exchanges)
    if sent[:1] == bytes([REQUEST]):
        yield from of_binary(sent)
        return
    at = 0
    while at < len(sent):
        if sent[at : at + 1] == b"*":
            at, words = resp_words(sent, at)
            if words:
                yield of_words(words)
        else:
            at, named = text_command(sent, at)
            if named:
                yield named


def of_binary(sent):
    for fields, body in packets(sent):
        name = OPCODES.get(fields[1], f"0x{fields[1]:02x}")
        extras = body[: fields[3]]
        kind = None
        if name in ("set", "setq", "add", "addq", "replace") and len(extras) == 8:
            kind = of_memcached(struct.unpack(">I", extras[4:])[0])
        yield f"{name} (binary)", kind


def text_command(sent, at):
    """The end of a line, and the command in it; the value of a store is skipped."""
    end = sent.find(b"\n", at)
    end = len(sent) if end < 0 else end
    words = sent[at:end].decode(errors="replace").split()
    if not words:
        return end + 1, None
    if words[0] in STORES and len(words) >= 5 and words[4].isdigit():
        return end + 3 + int(words[4]), (words[0], of_memcached(int(words[3])))
    return end + 1, (words[0], None)


def of_memcached(seconds):
    if seconds == 0:
        return "none"
    return "relative" if seconds <= RELATIVE_SECONDS_MAX else "absolute"


def resp_words(sent, at):
    """The end of a command of Redis's protocol, and its words; no words if it is cut."""
    found = re.compile(rb"\*(\d+)\r\n").match(sent, at)
    if not found:
        return len(sent), []
    at, words = found.end(), []
    for _ in range(int(found.group(1))):
        length = re.compile(rb"\$(\d+)\r\n").match(sent, at)
        if not length:
            return len(sent), []
        begin = length.end()
        at = begin + int(length.group(1)) + 2
        words.append(sent[begin : at - 2].decode(errors="replace"))
    return at, words


def of_words(words):
    """The name of a command of Redis, and the kind of its deadline."""
    name = words[0].upper()
    options = [word.upper() for word in words[3:]]
    kind = None
    if name in ("EXPIRE", "PEXPIRE", "SETEX", "PSETEX"):
        kind = "relative"
    elif name in ("EXPIREAT", "PEXPIREAT"):
        kind = "absolute"
    elif name == "SET":
        relative = {"EX", "PX"} & set(options)
        kind = "relative" if relative else "absolute" if {"EXAT", "PXAT"} & set(options) else "none"
    if name in CONTAINERS and len(words) > 1:
        name += f" {words[1].upper()}"
    return name, kind
