"""Telephony and access to networks."""

import socket
import struct

from servers import wait_until
from stage import READY_SECONDS_MAX, row

TITLE = "Telephony and network access"
KAMAILIO = """#!KAMAILIO
debug=0
log_stderror=yes
fork=no
children=1
auto_aliases=no
listen=udp:127.0.0.1:@sip@
mpath="/usr/lib/x86_64-linux-gnu/kamailio/modules/"
loadmodule "pv.so"
loadmodule "sl.so"
"""
OPTIONS = (
    "OPTIONS sip:test@127.0.0.1 SIP/2.0\r\n"
    "Via: SIP/2.0/UDP 127.0.0.1:5999;rport;branch=z9hG4bK1\r\n"
    "From: <sip:a@127.0.0.1>;tag=1\r\nTo: <sip:test@127.0.0.1>\r\nCall-ID: 1\r\n"
    "CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
)


def answer_to(stage, packet, port):
    """The answer to a packet of UDP, which is sent once a daemon listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        # A packet to a port where nothing listens yet is an error at once, and is sent again.
        own.settimeout(READY_SECONDS_MAX)
        own.connect(("127.0.0.1", port))

        def answered():
            stage.alive()
            try:
                own.send(packet)
                return own.recv(65536)
            except OSError:
                return None

        return wait_until("the daemon answers", answered, READY_SECONDS_MAX)


def kamailio(stage, config):
    """The first line of the answer to a request."""
    path = stage.write("kamailio.cfg", KAMAILIO + config)
    words = f"/usr/sbin/kamailio -DD -E -f {path} -Y {stage.folder} -m 64 -M 8"
    stage.start(words, "")
    return answer_to(stage, OPTIONS.encode(), stage.sip).split(b"\r\n")[0].decode()


@row(
    "Kamailio, ndb_redis",
    "kamailio-redis-modules kamailio",
    "redis",
    "strings, hashes, counters, a pipeline",
    configuration='modparam("ndb_redis", "server", "name=a;addr=127.0.0.1;port=6379;db=0")',
    polls=True,
)
def kamailio_redis(stage):
    return kamailio(
        stage,
        """
loadmodule "ndb_redis.so"
modparam("ndb_redis", "server", "name=a;addr=127.0.0.1;port=@redis@;db=1")
modparam("ndb_redis", "connect_timeout", 60000)
modparam("ndb_redis", "cmd_timeout", 60000)
request_route {
    redis_cmd("a", "SETEX caller 600 hello", "r");
    redis_cmd("a", "GET caller", "r");
    $var(all) = $redis(r=>value);
    redis_cmd("a", "HSET call state up", "r");
    redis_cmd("a", "HGETALL call", "h");
    $var(all) = $var(all) + $redis(h=>value[1]);
    redis_cmd("a", "LPUSH caller 1", "e");
    $var(all) = $var(all) + $redis(e=>type);
    sl_send_reply("200", "$var(all)");
}
""",
    )


@row(
    "Kamailio, memcached",
    "kamailio-memcached-modules kamailio",
    "memcached",
    "values, counters, removed values",
    configuration='modparam("memcached", "servers", "127.0.0.1:11211")',
    polls=True,
)
def kamailio_memcached(stage):
    return kamailio(
        stage,
        """
loadmodule "memcached.so"
modparam("memcached", "servers", "127.0.0.1:@memcached@")
modparam("memcached", "expire", 600)
modparam("memcached", "timeout", 60000)
request_route {
    $mct(caller) = "hello";
    $var(all) = $mct(caller);
    $mct(number) = 5;
    $mcinc(number) = 3;
    $mcdec(number) = 1;
    $var(number) = $mct(number);
    $mct(caller) = $null;
    $var(all) = $var(all) + $mct(caller);
    sl_send_reply("200", "$var(all)");
}
""",
    )


@row(
    "coturn, redis-userdb",
    "coturn",
    "redis",
    "`turnadmin`: users, realms, secrets, added, listed, removed",
    configuration='redis-userdb="ip=127.0.0.1 dbname=0 port=6379"',
    known=(rb"-ERR unknown command 'save'[^\r\n]*", b"+OK",
           "`SAVE` returns an error, which coturn ignores"),  # fmt: skip
)
def coturn(stage):
    base = ["/usr/bin/turnadmin"]
    database = ["-N", "ip=127.0.0.1 dbname=2 port=@redis@ connect_timeout=60"]
    said = ""
    for words in (
        "-a -u ann -r example.org -p secret",
        "-l -r example.org",
        "-s 0123456789 -r example.org",
        "-S -r example.org",
        "-g -o origin.example -r example.org",
        "-O -o https://origin.example -r example.org",
        "-I",
        "-d -u ann -r example.org",
        "-l -r example.org",
    ):
        lines = stage.run([*base, *words.split(), *database], codes=None).splitlines()
        kept = [line for line in lines if "example.org" in line or "012345" in line]
        said += "\n".join(line.split(": ", 2)[-1] for line in kept) + "\n"
    return said


RADIUS = """
name = freeradius
confdir = @folder@
logdir = @folder@
run_dir = @folder@
raddbdir = @folder@
libdir = /usr/lib/freeradius
log {
    destination = stdout
}
security {
    allow_vulnerable_openssl = yes
}
modules {
MODULE
}
server default {
    listen {
        type = auth
        ipaddr = 127.0.0.1
        port = @radius@
    }
    client local {
        ipaddr = 127.0.0.1
        secret = secret
    }
    authorize {
        update control {
            Auth-Type := Accept
        }
POLICY
    }
    authenticate {
    }
}
"""
POOL = """
        pool {
            start = 1
            min = 1
            max = 1
            spare = 0
            uses = 0
            lifetime = 0
            idle_timeout = 0
        }
"""


def radius(stage, module, policy, count):
    """The attributes of the answers to so many requests."""
    stage.write("dictionary", "$INCLUDE /usr/share/freeradius/dictionary\n")
    config = RADIUS.replace("MODULE", module.replace("POOL", POOL)).replace("POLICY", policy)
    stage.write("radiusd.conf", config)
    stage.start(
        f"/usr/sbin/freeradius -X -d {stage.folder} -n radiusd -D {stage.folder}",
        r"Ready to process requests",
    )
    said = ""
    for number in range(count):
        name = b"ann"
        attribute = bytes([1, 2 + len(name)]) + name
        packet = struct.pack(">BBH", 1, number, 20 + len(attribute)) + bytes(16) + attribute
        said += repr(answer_to(stage, packet, stage.radius)[20:]) + "\n"
    return said


@row(
    "FreeRADIUS, rlm_redis",
    "freeradius-redis freeradius freeradius-config",
    "redis",
    "strings, hashes, counters by `%{redis:...}`",
    configuration="redis { server = 127.0.0.1  port = 6379 }",
    polls=True,
)
def freeradius_redis(stage):
    return radius(
        stage,
        """
    redis {
        server = 127.0.0.1
        port = @redis@
        database = 1
POOL
    }
""",
        """update reply {
            Reply-Message := "%{redis:SET user:%{User-Name} hello}"
            Reply-Message += "%{redis:GET user:%{User-Name}}"
            Reply-Message += "%{redis:EXPIRE user:%{User-Name} 600}"
            Reply-Message += "%{redis:INCR count}"
            Reply-Message += "%{redis:HSET h a 1}"
            Reply-Message += "%{redis:HGET h a}"
        }""",
        1,
    )


@row(
    "FreeRADIUS, rlm_cache_memcached",
    "freeradius-memcached freeradius freeradius-config",
    "memcached",
    "a cache of attributes: a miss, then a hit",
    configuration='driver = "rlm_cache_memcached"\noptions = "--SERVER=127.0.0.1:11211"',
    polls=True,
    # An entry has the time at which it was made.
    replaced=((rb"(Cache-(?:Expires|Created) = )\d+", b"\\1(time)"),
              (rb"(?m)^(set \S+ \d+ )\d{10} ", b"\\1(time) ")),  # fmt: skip
)
def freeradius_memcached(stage):
    return radius(
        stage,
        """
    cache {
        driver = "rlm_cache_memcached"
        memcached {
            options = "--SERVER=127.0.0.1:@memcached@"
POOL
        }
        key = "%{User-Name}"
        ttl = 600
        add_stats = no
        update {
            &reply:Reply-Message += "from the cache"
        }
    }
""",
        """
        cache
""",
        2,
    )
