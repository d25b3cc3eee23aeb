"""Proxies and queues in front of a server."""

import contextlib

from servers import wait_until
from stage import row

TITLE = "Proxies and queues"


def nutcracker(stage, server, redis):
    path = stage.write(
        "nutcracker.yml",
        f"""cache:
  listen: 127.0.0.1:@front@
  hash: fnv1a_64
  distribution: ketama
  redis: {redis}
  servers:
    - 127.0.0.1:{server}:1
""",
    )
    stage.start(f"/usr/sbin/nutcracker -c {path} -s @statistics@ -a 127.0.0.1", stage.front)


@row(
    "twemproxy, memcached",
    "nutcracker",
    "memcached",
    "stores, counters, compare and set, many keys",
    configuration="servers:\n  - 127.0.0.1:11211:1",
)
def twemproxy_memcached(stage):
    nutcracker(stage, "@memcached@", "false")
    said = ""
    for text, last in (
        ("set a 7 600 3\r\none\r\n", b"STORED\r\n"),
        ("get a none\r\n", b"END\r\n"),
        ("add a 0 0 1\r\n1\r\n", b"NOT_STORED\r\n"),
        ("append a 0 0 1\r\n1\r\n", b"STORED\r\n"),
        ("set n 0 0 1\r\n5\r\n", b"STORED\r\n"),
        ("incr n 3\r\n", b"8\r\n"),
        ("decr n 9\r\n", b"0\r\n"),
        ("cas a 0 0 1 1\r\n1\r\n", b"EXISTS\r\n"),
        ("touch a 60\r\n", b"TOUCHED\r\n"),
        ("delete a\r\n", b"DELETED\r\n"),
        ("delete a\r\n", b"NOT_FOUND\r\n"),
    ):
        said += f"{stage.until(stage.front, text.encode(), last)}\n"
    return said


@row(
    "twemproxy, Redis",
    "nutcracker",
    "redis",
    "strings, hashes, many keys, a script",
    configuration="redis: true\nservers:\n  - 127.0.0.1:6379:1",
)
def twemproxy_redis(stage):
    nutcracker(stage, "@redis@", "true")
    said = ""
    for words, last in (
        ("SETEX a 600 one", b"+OK\r\n"),
        ("GET a", b"one\r\n"),
        ("MGET a none", b"$-1\r\n"),
        ("HSET h x 1", b":1\r\n"),
        ("HGETALL h", b"1\r\n"),
        ("INCRBY n 5", b":5\r\n"),
        ("EXPIRE n 60", b":1\r\n"),
        ("ZADD z 1 m", b":1\r\n"),
        ("ZRANGE z 0 -1", b"m\r\n"),
        ("EVAL return(KEYS[1]) 1 k", b"k\r\n"),
        ("DEL a n none", b":2\r\n"),
    ):
        said += f"{stage.until(stage.front, resp(words.split()), last)}\n"
    return said


def resp(words):
    """A command of Redis's protocol."""
    parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
    return f"*{len(words)}\r\n{''.join(parts)}".encode()


MANY_JOBS = 3000


@row(
    "gearmand, queue in memcached",
    "gearman-job-server gearman-tools",
    "memcached",
    "jobs in the background, restarts with 3 and with 3,000 jobs, a worker",
    configuration="gearmand -q libmemcached --libmemcached-servers=127.0.0.1:11211",
    # gearmand lists one class of sizes after the other; class and order are the server's choice.
    replaced=((rb"cachedump \d+ 0", b"cachedump (class) 0"),
              (rb"(ITEM [^\r\n]*\r\n)+", b"(items)\r\n")),  # fmt: skip
    polls=True,
)
def gearmand(stage):
    words = (
        "/usr/sbin/gearmand -q libmemcached --libmemcached-servers=127.0.0.1:@memcached@"
        f" -L 127.0.0.1 -p @jobs@ -l stderr -P {stage.path('gearmand.pid')}"
    )
    stage.start(words, stage.jobs)
    client = "/usr/bin/gearman -h 127.0.0.1 -p @jobs@"
    for number in range(3):
        stage.run(f"{client} -b -f work -u job{number}", text=f"text {number}")
    stage.stop()
    stage.start(words, stage.jobs)
    said = queued(stage, 3)
    stage.start(f"{client} -w -f work -- /bin/cat", "", log="worker.log")
    said += queued(stage, 0)
    stage.stop()
    stored = "set gear_work-more{} 1 0 4 noreply\r\ntext\r\n"
    sets = [stored.format(number) for number in range(MANY_JOBS)]
    stage.put("memcached", "".join(sets) + "get none\r\n", "END\r\n")
    stage.start(words, stage.jobs)
    return said + queued(stage, MANY_JOBS)


def queued(stage, count):
    """What gearmand says of its queues once so many jobs are there, or after a while."""
    said = b""

    def all_there():
        nonlocal said
        said = stage.until(stage.jobs, b"status\n", b".\n")
        return said.startswith(b"work\t%d\t" % count)

    with contextlib.suppress(TimeoutError):
        wait_until(f"{count} jobs are queued", all_there)
    return said.decode()


@row(
    "uWSGI, router_redis",
    "uwsgi-core",
    "redis",
    "pages by key, misses",
    configuration="route = ^/(.+) redis:addr=127.0.0.1:6379,key=$1",
)
def uwsgi_redis(stage):
    stage.put("redis", "SET page hello\r\n", "+OK\r\n")
    route = "^/(.+) redis:addr=127.0.0.1:@redis@,key=$1,content_type=text/plain"
    uwsgi(stage, "router_redis", route)
    return stage.get(stage.http, "/page") + stage.get(stage.http, "/none")[:3]


@row(
    "uWSGI, router_memcached",
    "uwsgi-core",
    "memcached",
    "pages by key, misses, pages stored with an expiration",
    configuration="route = ^/(.+) memcached:addr=127.0.0.1:11211,key=$1",
)
def uwsgi_memcached(stage):
    stage.put("memcached", "set page 0 0 5\r\nhello\r\n", "STORED\r\n")
    route = "^/(.+) memcached:addr=127.0.0.1:@memcached@,key=$1,content_type=text/plain"
    uwsgi(stage, "router_memcached", route)
    return stage.get(stage.http, "/page") + stage.get(stage.http, "/none")[:3]


def uwsgi(stage, plugin, route):
    path = stage.write(
        "uwsgi.ini",
        f"""[uwsgi]
plugin = {plugin}
plugin = notfound
http-socket = 127.0.0.1:@http@
route = {route}
""",
    )
    stage.start(f"/usr/bin/uwsgi-core --ini {path}", stage.http)
