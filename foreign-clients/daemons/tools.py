"""Tools of an operator."""

from monitoring import without_numbers
from stage import row

TITLE = "Command-line tools"


@row(
    "redis-cli",
    "redis-tools",
    "redis",
    "RESP2 and RESP3, `--pipe`, `--scan`, `--eval`, `-x`",
    configuration="redis-cli -h 127.0.0.1 -p 6379",
    # The mark at the end of --pipe is random.
    replaced=((rb"(?s)\$4\r\nECHO\r\n\$20\r\n.{20}", b"(mark)"),
              (rb"(?s)\$20\r\n[^+*:-].{19}", b"(mark)")),  # fmt: skip
)
def redis_cli(stage):
    cli = "/usr/bin/redis-cli -h 127.0.0.1 -p @redis@"
    stage.write("script.lua", "return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}")
    said = ""
    for words, text in (
        ("SET a 1 EX 600", ""),
        ("-3 HSET h x 1 y 2", ""),
        ("-3 HGETALL h", ""),
        ("-n 3 GET a", ""),
        ("-x SET long", "text of standard input"),
        ("--pipe", "SET b 2\r\nINCR b\r\nHSET b x 1\r\n"),
        ("--eval script.lua a , v", ""),
        ("--scan --pattern lon*", ""),
        ("--csv LRANGE none 0 -1", ""),
        ("nosuch", ""),
        ("", "GET a\nMULTI\nINCR a\nEXEC\n"),
    ):
        said += stage.run(f"{cli} {words}", text=text, codes=None)
    return said


@row(
    "redis-benchmark",
    "redis-tools",
    "redis",
    "its tests, one connection",
    configuration="redis-benchmark -h 127.0.0.1 -p 6379",
    polls=True,
    # A server's own configuration, which it prints and does not use otherwise.
    replaced=((rb"(?s)\*2\r\n\$4\r\nsave\r\n.*", b"(save and appendonly)"),),
)
def redis_benchmark(stage):
    tests = "ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin"
    said = stage.run(
        f"/usr/bin/redis-benchmark -h 127.0.0.1 -p @redis@ -c 1 -n 20 -q -t {tests},lrange,mset"
    )
    lines = said.replace("\r", "\n").splitlines()
    return "\n".join(sorted({line.split(":")[0] for line in lines if "per second" in line}))


@row(
    "iredis",
    "iredis",
    "redis",
    "commands with formatted answers",
    configuration="iredis -h 127.0.0.1 -p 6379",
)
def iredis(stage):
    stage.write(".iredisrc", "[main]\nlog_location = \n")
    return stage.run(
        "/usr/bin/python3 /usr/bin/iredis -h 127.0.0.1 -p @redis@",
        text="SET a 1 EX 600\nGET a\nHSET h x 1\nHGETALL h\nGET none\nLPUSH a 1\n",
        codes=None,
        environment={"TERM": "dumb"},
    )


@row(
    "libmemcached tools",
    "libmemcached-tools",
    "memcached",
    "memcping, memccp, memccat, memcexist, memctouch, memcdump, memcstat, memcrm, memcflush",
    configuration="memcping --servers=127.0.0.1:11211",
    # memcdump asks for each class of sizes; the class of an item is the server's choice.
    replaced=((rb"cachedump \d+ 0", b"cachedump (class) 0"),
              (rb"(ITEM [^\r\n]*\r\n)+", b"(items)\r\n")),  # fmt: skip
    polls=True,
)
def libmemcached_tools(stage):
    stage.write("one", "first\n")
    stage.write("two", "second\n")
    said = ""
    for binary in ("", " --binary"):
        for words in (
            "memcping",
            "memccp --expire=600 one two",
            "memccat one two",
            "memccat none",
            "memcexist one",
            "memcexist none",
            "memctouch --expire=60 one",
            "memcrm one",
            "memcflush",
            "memccat two",
        ):
            name, *more = words.split()
            command = f"/usr/bin/{name} --servers=127.0.0.1:@memcached@{binary} {' '.join(more)}"
            said += f"{words}: {stage.run(command, codes=None)}"
    stage.run("/usr/bin/memccp --servers=127.0.0.1:@memcached@ one")
    dumped = stage.run("/usr/bin/memcdump --servers=127.0.0.1:@memcached@")
    said += f"dumped: {'one' in dumped.split()} "
    lines = stage.run("/usr/bin/memcstat --servers=127.0.0.1:@memcached@").splitlines()
    needed = ("curr_items", "cmd_get", "get_hits", "evictions", "limit_maxbytes", "version")
    return said + "".join(f"{name} " for name in needed if any(name in line for line in lines))


@row(
    "memcached-tool",
    "memcached",
    "memcached",
    "display, stats, dump",
    configuration="memcached-tool 127.0.0.1:11211",
    replaced=((rb"exp=\d+ la=\d+ cas=\d+", b"exp=(time) la=(time) cas=(cas)"),
              (rb"(?m)^(key=[^\r\n]*) size=\d+", b"\\1 size=(bytes)"),
              (rb"cls=\d+", b"cls=(class)")),  # fmt: skip
    known=(rb"(key=[^\n]*?) flags=\d+ \n", b"\\1\n",
           "`lru_crawler metadump` has `flags=`, as newer versions of memcached"),  # fmt: skip
)
def memcached_tool(stage):
    stage.put("memcached", "set key 7 600 5\r\nvalue\r\n", "STORED\r\n")
    tool = "/usr/bin/perl /usr/share/memcached/scripts/memcached-tool 127.0.0.1:@memcached@"
    dump = stage.run(f"{tool} dump", codes=None)
    lines = stage.run(f"{tool} stats", codes=None).splitlines()
    needed = ("curr_items", "cmd_get", "get_hits", "evictions", "limit_maxbytes", "version")
    said = "".join(f"{name} " for name in needed if any(name in line for line in lines))
    return without_numbers(dump) + said
