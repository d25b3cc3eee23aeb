"""Random programs for the libraries of scripts: struct, cmsgpack, bit and cjson.

Each program calls one function with random arguments, packs what it has unpacked and the other way
round, and shows all it got, types and digits included; an error shows its text. Floats that have no
sign or are no number are shown as such, as processors may choose their bits.
"""

# What a program answers: its results with their types, tables by their sorted keys.
SHOW = r"""
local function show(v, d)
  local t = type(v)
  if t == 'number' then
    if v ~= v then return 'nan' end
    return string.format('%.17g', v)
  elseif t == 'string' then return 's:' .. v
  elseif t == 'table' then
    if d > 24 then return 'deep' end
    local parts = {}
    for k, w in pairs(v) do parts[#parts + 1] = show(k, d + 1) .. '=' .. show(w, d + 1) end
    table.sort(parts)
    return '{' .. table.concat(parts, ',') .. '}'
  elseif t == 'userdata' then return 'userdata' end
  return t == 'boolean' and tostring(v) or t
end
local function all(...)
  local parts = {}
  for i = 1, select('#', ...) do parts[i] = show((select(i, ...)), 0) end
  return table.concat(parts, '|')
end
"""

NUMBERS = (
    "0 1 -1 2 7 31 32 33 127 128 129 255 256 -31 -32 -33 -127 -128 -129 32767 32768 65535 65536 "
    "-32768 -32769 2147483647 2147483648 4294967295 4294967296 -2147483648 -2147483649 1e15 "
    "9007199254740993 9223372036854775807 9223372036854775808 -9223372036854775808 "
    "1.8446744073709552e19 1e300 1e-300 0.1 -0.5 1.5 2.5 3.14159 1e17 123456.789 16777217 1/3 "
    "5e-324 1/0 -1/0 0/0"
).split()
STRUCT_OPTIONS = (
    "b B h H l L T f d s x i I i1 I2 i3 I4 i7 I8 i9 i16 i32 i33 c0 c1 c3 c10 < > "
    "! !1 !2 !4 !8 !16 !3 z"
).split()
STRUCT_OPTIONS.append(" ")
JSON_PIECES = (
    r'{ } [ ] , : "a" "b" "" "x\n" "\u0041" "\ud83d\ude00" "\ud800" "\udc00x" "\q" "\u12" '
    "true false null "
    r'tru nul 0 1 -1 1.5 1e5 1e 0x1F 01 -0 -01 +1 .5 5. Infinity -inf NaN nan(1) 1e400 "a a\tb'
).split() + [" ", "\n", "\t", "\x01", '"a\x01\xff"', "\x00", "\xff"]
USUAL_CODES = bytes.fromhex("81 91 92 a1 c0 c3 ca cb cc cf d3 d9 dc de")
CODES = bytes(range(256)) + USUAL_CODES * 8
PLACES = ",0 ,1 ,2 ,50 ,-1 ,nil".split()
UNPACKS = "pack unpack unpack_one unpack_limit".split()


class Programs:
    """Makes programs at random."""

    def __init__(self, random):
        self.random = random

    def bytes(self, of, counts):
        return bytes(self.random.choices(of, k=self.random.choice(counts)))

    def text(self, data=None):
        """Bytes as a literal of Lua."""
        if data is None:
            data = self.bytes(b"ab\0\xff\"/\\\n~", (0, 1, 3, 9, 40))
        if isinstance(data, str):
            data = data.encode("latin-1")
        return "'" + "".join(f"\\{byte:03}" for byte in data) + "'"

    def number(self):
        if self.random.random() < 0.6:
            return self.random.choice(NUMBERS)
        if self.random.random() < 0.5:
            return repr(self.random.uniform(-300, 300))
        return repr(self.random.randrange(-(1 << 40), 1 << 40))

    def value(self, depth=0):
        """A literal: often a number or text, at times a table."""
        pick = self.random.random()
        if pick < 0.4:
            return self.number()
        if pick < 0.6:
            return self.text()
        if pick < 0.75 or depth > 3:
            return self.random.choice(("nil", "true", "false", "cjson.null", "tostring", "'12'"))
        if pick < 0.88:
            values = [self.value(depth + 1) for _ in range(self.random.randrange(5))]
            return "{" + ",".join(values) + "}"
        # One pair at most: the order of more is each server's own.
        keys = [self.text(), self.number(), "true", "20", "3", "0", "1.5", "-1"]
        return "{[" + self.random.choice(keys) + "]=" + self.value(depth + 1) + "}"

    def values(self, most):
        return ",".join(self.value() for _ in range(self.random.randrange(most)))

    def layout(self):
        return "".join(self.random.choice(STRUCT_OPTIONS) for _ in range(self.random.randrange(7)))

    def packs(self):
        """A layout, and values that fit it most of the time."""
        parts, values = [], []
        for _ in range(self.random.randrange(6)):
            option = self.random.choice(STRUCT_OPTIONS)
            parts.append(option)
            if option[0] in "sc":
                values.append(self.text())
            elif option[0].lower() in "bhltfdi":
                values.append(self.number() if self.random.random() < 0.95 else self.value())
        return self.text("".join(parts)), "".join("," + value for value in values)

    def struct(self):
        layout, values = self.packs()
        data = self.text(self.bytes(range(256), (0, 3, 8, 40, 90)))
        other, place = self.text(self.layout()), self.random.choice(["", *PLACES])
        return self.random.choice((
            f"struct.pack({layout}{values})",
            f"struct.unpack({layout}, struct.pack({layout}{values}))",
            f"struct.unpack({other}, {data}{place})",
            f"struct.size({other})",
            f"struct.{self.random.choice(['pack', 'unpack', 'size'])}({self.values(3)})",
        ))

    def msgpack(self):
        data = self.text(self.bytes(CODES, (1, 2, 5, 12)))
        place = self.random.choice("0 1 2 3 9 -1 nil 99".split())
        return self.random.choice((
            f"cmsgpack.pack({self.values(4)})",
            f"cmsgpack.unpack(cmsgpack.pack({self.value()},{self.value()}))",
            f"cmsgpack.unpack({data})",
            f"cmsgpack.unpack_one({data},{place})",
            f"cmsgpack.unpack_limit({data},{self.random.choice('0 1 2 -1'.split())},{place})",
            f"cmsgpack.unpack_one(cmsgpack.pack(1,2,'x'),{place})",
            f"cmsgpack.{self.random.choice(UNPACKS)}({self.values(3)})",
        ))

    def bit(self):
        names = "tobit tohex bnot band bor bxor lshift rshift arshift rol ror bswap"
        name = self.random.choice(names.split())
        count = self.random.choice((0, 1, 2, 2, 2, 3))
        odd = self.random.random() < 0.2
        values = [self.value() if odd else self.number() for _ in range(count)]
        return f"bit.{name}({','.join(values)})"

    def json(self):
        count = self.random.choice((1, 1, 2, 3, 5, 8))
        pieces = self.text("".join(self.random.choices(JSON_PIECES, k=count)))
        choice = self.random.choice(
            "encode_sparse_array encode_max_depth decode_max_depth encode_number_precision "
            "encode_keep_buffer encode_invalid_numbers decode_invalid_numbers".split()
        )
        words = "true false nil 'on' 'off' 'null' 'x' 0 1 2 3 14 15 -1 '5' {}"
        words = self.random.choice(words.split())
        call = self.random.choice((f"encode({self.value()})", f"decode({pieces})"))
        return self.random.choice((
            f"cjson.encode({self.value()})",
            f"cjson.encode({self.values(3)})",
            f"cjson.decode({pieces})",
            f"cjson.decode({self.text('[' + self.random.choice(JSON_PIECES) + ']')})",
            f"cjson.decode(cjson.encode({self.value()}))",
            f"(function() local j = cjson.new() local w = j.{choice}({words}) "
            f"return w, j.{call} end)()",
            f"cjson.new().{choice}({words})",
        ))

    def program(self):
        call = self.random.choice((self.struct, self.msgpack, self.bit, self.json))()
        run = f"function() local r = {{{call}}} return unpack(r, 1, table.maxn(r)) end"
        return f"{SHOW}return {{all(pcall({run}))}}"
