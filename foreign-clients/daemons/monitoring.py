"""Checks, exporters and load balancers that ask whether a server is well."""

import json
import re

from servers import wait_until
from stage import READY_SECONDS_MAX, row

TITLE = "Monitoring"
NAGIOS = "/usr/lib/nagios/plugins"


def without_numbers(text):
    return re.sub(r"\d+(\.\d+)?", "N", text)


@row(
    "HAProxy, option redis-check",
    "haproxy",
    "redis",
    "checks, and commands through the proxy",
    configuration="option redis-check",
    polls=True,
)
def haproxy_redis(stage):
    sent, expected = b"PING\r\nGET none\r\n", b"+PONG\r\n$-1\r\n"
    return haproxy(stage, "option redis-check", "@redis@", sent, expected)


@row(
    "HAProxy, option tcp-check before memcached",
    "haproxy",
    "memcached",
    "checks, and commands through the proxy",
    configuration="option tcp-check\ntcp-check send version\\r\\n\ntcp-check expect string VERSION",
    polls=True,
)
def haproxy_memcached(stage):
    check = """option tcp-check
    tcp-check send version\\r\\n
    tcp-check expect string VERSION
    tcp-check send "mn\\r\\n"
    tcp-check expect string MN"""
    return haproxy(stage, check, "@memcached@", b"get none\r\nmn\r\n", b"END\r\nMN\r\n")


def haproxy(stage, check, port, sent, expected):
    """Starts HAProxy, waits for a check that passes, and sends a request through it."""
    path = stage.write(
        "haproxy.cfg",
        f"""
global
    stats socket @folder@/stats.sock
defaults
    mode tcp
    timeout connect 60s
    timeout client 60s
    timeout server 60s
    timeout check 60s
listen cache
    bind 127.0.0.1:@front@
    {check}
    server a 127.0.0.1:{port} check inter 200 fall 3
""",
    )
    stage.start(f"/usr/sbin/haproxy -db -f {path}", stage.front)

    def checked():
        with stage.unix("stats.sock") as connection:
            connection.sendall(b"show stat json\n")
            text = connection.makefile("rb").read()
        fields = {
            (entry["field"]["name"]): entry["value"]["value"]
            for entries in json.loads(text)
            for entry in entries
            if any(e["field"]["name"] == "svname" and e["value"]["value"] == "a" for e in entries)
        }
        return fields.get("check_status", "").startswith("L") and fields

    fields = wait_until("HAProxy has checked", checked, READY_SECONDS_MAX)
    answer = stage.exchange(stage.front, sent, len(expected))
    return f"{fields['check_status']} {fields['status']} {answer}"


@row(
    "Nagios plugin check_memcached",
    "monitoring-plugins-contrib",
    "memcached",
    "statistics of some minutes, stored and read",
    configuration="check_memcached -H 127.0.0.1 -p 11211",
    # The plugin stores statistics with the time of the run, once in some seconds.
    replaced=((rb"(?s)(set \S+ \d+ \d+ )\d+\r\n.*?\r\n(?=\w+ |\Z)", b"\\1(statistics)\r\n"),
              (rb"(?s)(VALUE \S+ \d+ )\d+\r\n.*?\r\nEND", b"\\1(statistics)\r\nEND")),  # fmt: skip
    polls=True,
)
def check_memcached(stage):
    words = f"{NAGIOS}/check_memcached -H 127.0.0.1 -p @memcached@"
    said = [stage.run(f"{words}{more}", codes=None) for more in ("", " -E 10 -r 0.1")]
    return without_numbers("".join(said))


@row(
    "Nagios plugin check_redis",
    "monitoring-plugins-contrib libredis-perl",
    "redis",
    "statistics with thresholds, values of keys",
    configuration="check_redis -H 127.0.0.1 -p 6379",
)
def check_redis(stage):
    stage.put("redis", "SET key 5\r\nRPUSH list 1 2\r\n", "+OK\r\n:2\r\n")
    words = f"/usr/bin/perl {NAGIOS}/check_redis -H 127.0.0.1 -p @redis@ -t 120"
    said = ""
    for more in (
        "-a connected_clients,blocked_clients -w ~,~ -c ~,~ -f",
        "-D 0 -q GET,key,CRIT:>9 -q LLEN,list,CRIT:>1",
    ):
        said += stage.run(f"{words} {more}", codes=None)
    said = without_numbers(re.sub(r"up [^-]* seconds?", "up (time)", said))
    # The plugin prints performance data in the order of a hash.
    return " ".join(sorted(said.split()))


@row(
    "Nagios plugin check_tcp",
    "monitoring-plugins-basic",
    "redis memcached",
    "an answer to `PING` and to `version`",
    configuration='check_tcp -H 127.0.0.1 -p 6379 -E -s "PING\\r\\n" -e PONG',
)
def check_tcp(stage):
    said = ""
    for port, sent, expected, quit_ in (
        ("@redis@", "PING\\r\\n", "+PONG", "QUIT\\r\\n"),
        ("@memcached@", "version\\r\\n", "VERSION", "quit\\r\\n"),
    ):
        words = [f"{NAGIOS}/check_tcp", "-H", "127.0.0.1", "-p", port, "-t", "60", "-E"]
        words += ["-s", sent, "-e", expected, "-q", quit_]
        said += stage.run(words, codes=None)
    return without_numbers(re.sub(r"VERSION [^]]*", "VERSION (version)", said))


@row(
    "Munin plugin memcached_",
    "munin-plugins-extra munin-plugins-core munin-common munin-node",
    "memcached",
    "all graphs: configuration and values",
    configuration="env.host 127.0.0.1\nenv.port 11211",
)
def munin_memcached(stage):
    environment = {
        "host": "127.0.0.1",
        "port": str(stage.memcached),
        "MUNIN_LIBDIR": "/usr/share/munin",
        "MUNIN_PLUGSTATE": str(stage.folder),
        "MUNIN_STATEFILE": stage.path("state"),
    } | stage.HASH_ORDER
    said = ""
    for graph in ("bytes", "counters", "rates"):
        link = stage.folder / f"memcached_{graph}"
        link.symlink_to("/usr/share/munin/plugins/memcached_")
        for words in ([str(link), "config"], [str(link)]):
            said += stage.run(words, codes=None, environment=environment)
    return without_numbers(said)


@row(
    "prometheus-redis-exporter",
    "prometheus-redis-exporter",
    "redis",
    "the metrics that a dashboard reads",
    configuration="--redis.addr redis://127.0.0.1:6379",
    polls=True,
    # All parameters of the configuration, which are each server's own.
    replaced=((rb"(?s)^\*\d+\r\n\$\d+\r\n[a-z-]+\r\n.*maxmemory.*", b"(parameters)"),),
)
def redis_exporter(stage):
    stage.put("redis", "SET a 1\r\nSET b 2 EX 600\r\n", "+OK\r\n+OK\r\n")
    # Which commands are slow is the machine's doing.
    quiet = "CONFIG SET slowlog-log-slower-than -1\r\nSLOWLOG RESET\r\n"
    stage.put("redis", quiet, "+OK\r\n+OK\r\n")
    stage.start(
        "/usr/bin/prometheus-redis-exporter --redis.addr redis://127.0.0.1:@redis@"
        " --web.listen-address 127.0.0.1:@http@ --connection-timeout 60s",
        stage.http,
    )
    text = stage.get(stage.http, "/metrics")
    wanted = (
        'redis_up 1',
        'redis_db_keys{db="db0"} 2',
        'redis_db_keys_expiring{db="db0"} 1',
        "redis_exporter_last_scrape_error{err=\"\"} 0",
    )
    names = ("redis_memory_used_bytes", "redis_memory_max_bytes", "redis_connected_clients",
             "redis_commands_processed_total", "redis_keyspace_hits_total",
             "redis_expired_keys_total", "redis_keyspace_misses_total",
             "redis_evicted_keys_total", "redis_uptime_in_seconds",
             "redis_net_input_bytes_total", "redis_net_output_bytes_total", "redis_blocked_clients",
             "redis_commands_total", "redis_commands_duration_seconds_total",
             "redis_instance_info", "redis_connections_received_total",
             "redis_rejected_connections_total", "redis_slowlog_length")  # fmt: skip
    lines = [f"{line}: {line in text}" for line in wanted]
    lines += [f"{name}: {re.search(f'(?m)^{name}[ {{]', text) is not None}" for name in names]
    return "\n".join(lines)
