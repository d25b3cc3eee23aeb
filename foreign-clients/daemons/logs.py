"""Daemons that send log lines and measurements."""

import re

from servers import wait_until
from stage import row

TITLE = "Logs and measurements"
LINES = "".join(
    f"<13>1 2026-11-01T10:00:0{second}Z host app - - - line {second}\n" for second in range(3)
)


@row(
    "rsyslog, omhiredis",
    "rsyslog-hiredis rsyslog",
    "redis",
    "modes queue, publish, set, and templates of commands",
    configuration='type="omhiredis" server="127.0.0.1" serverport="6379" mode="queue" key="logs"',
    polls=True,
)
def rsyslog(stage):
    path = stage.write(
        "rsyslog.conf",
        """
global(workDirectory="@folder@")
module(load="/usr/lib/x86_64-linux-gnu/rsyslog/imtcp.so")
module(load="/usr/lib/x86_64-linux-gnu/rsyslog/omhiredis.so")
input(type="imtcp" port="@lines@" address="127.0.0.1")
template(name="line" type="string" string="%msg%")
template(name="count" type="string" string="HINCRBY hosts %hostname% 1")
action(type="omhiredis" server="127.0.0.1" serverport="@redis@" mode="queue" key="logs"
       template="line")
action(type="omhiredis" server="127.0.0.1" serverport="@redis@" mode="publish" key="channel"
       template="line")
action(type="omhiredis" server="127.0.0.1" serverport="@redis@" mode="set" key="last"
       expiration="600" template="line")
action(type="omhiredis" server="127.0.0.1" serverport="@redis@" template="count")
""",
    )
    words = f"/usr/sbin/rsyslogd -n -f {path} -i {stage.path('rsyslog.pid')}"
    stage.start(words, stage.lines)
    # One line at a time: lines that arrive together are sent in batches of any size.
    for count, line in enumerate(LINES.splitlines(True), 1):
        stage.say(stage.lines, line)
        stage.await_answer("redis", "HGET hosts host\r\n", f"$1\r\n{count}\r\n")
        stage.await_answer("redis", "LLEN logs\r\n", f":{count}\r\n")
    return stage.put("redis", "LRANGE logs 0 -1\r\nGET last\r\nECHO done\r\n", "done\r\n")


@row(
    "syslog-ng, redis()",
    "syslog-ng-mod-redis syslog-ng-core",
    "redis",
    "counters and lists by command",
    configuration='redis(host("127.0.0.1") port(6379) command("HINCRBY", "hosts", "$HOST", "1"))',
)
def syslog_ng(stage):
    path = stage.write(
        "syslog-ng.conf",
        """@version: 3.38
options { keep-hostname(yes); stats-freq(0); };
source lines { syslog(ip(127.0.0.1) port(PORT) transport("tcp") flags(no-multi-line)); };
destination counts {
    redis(host("127.0.0.1") port(@redis@) command("HINCRBY", "hosts", "$HOST", "1") workers(1));
};
log { source(lines); destination(counts); };
""".replace("PORT", "@lines@"),
    )
    folder = stage.folder
    stage.start(
        f"/usr/sbin/syslog-ng -F -f {path} -R {folder}/persist -c {folder}/control"
        f" -p {folder}/pid --no-caps -e",
        stage.lines,
    )
    for count, line in enumerate(LINES.splitlines(), 1):
        stage.say(stage.lines, f"{len(line)} {line}")
        stage.await_answer("redis", "HGET hosts host\r\n", f"$1\r\n{count}\r\n")
    return stage.put("redis", "HGETALL hosts\r\nECHO done\r\n", "done\r\n")


COLLECTD = """
Hostname "host"
BaseDir "@folder@"
PIDFile "@folder@/collectd.pid"
PluginDir "/usr/lib/collectd"
TypesDB "/usr/share/collectd/types.db"
Interval 1
LoadPlugin csv
<Plugin csv>
    DataDir "@folder@/data"
</Plugin>
"""


def collectd(stage, config):
    """The names of all measurements; each has a file, which is named after it and the day."""
    path = stage.write("collectd.conf", COLLECTD + config)
    stage.start(f"/usr/sbin/collectd -f -C {path}", "")

    def measured():
        stage.alive()
        files = list((stage.folder / "data").glob("*/*/*"))
        # All names are there once each has a line of a second interval below the title.
        return files and all(len(file.read_text().splitlines()) >= 3 for file in files) and files

    names = {re.sub(r"-\d{4}-\d\d-\d\d$", "", file.name) for file in wait_until("data", measured)}
    return "\n".join(sorted(names))


@row(
    "collectd, plugin memcached",
    "collectd-core",
    "memcached",
    "the names of all measurements",
    configuration='Host "127.0.0.1"\nPort "11211"',
    polls=True,
)
def collectd_memcached(stage):
    # Ratios are measured once there was a hit and a miss.
    requests = "set n 0 0 1\r\n1\r\nget n\r\nget none\r\nincr n 1\r\nincr none 1\r\n"
    stage.put("memcached", requests, "NOT_FOUND\r\n")
    return collectd(
        stage,
        """LoadPlugin memcached
<Plugin memcached>
    <Instance "cache">
        Host "127.0.0.1"
        Port "@memcached@"
    </Instance>
</Plugin>
""",
    )


@row(
    "collectd, plugin redis",
    "collectd-core",
    "redis",
    "the names of all measurements, and a query",
    configuration='Host "127.0.0.1"\nPort "6379"',
    polls=True,
)
def collectd_redis(stage):
    stage.put("redis", "RPUSH queue a b\r\n", ":2\r\n")
    return collectd(
        stage,
        """LoadPlugin redis
<Plugin redis>
    <Node "cache">
        Host "127.0.0.1"
        Port "@redis@"
        Timeout 60000
        <Query "LLEN queue">
            Type "queue_length"
            Instance "queue"
        </Query>
    </Node>
</Plugin>
""",
    )


@row(
    "uWSGI, logger redislog",
    "uwsgi-core",
    "redis",
    "log lines, published",
    configuration="logger = redislog:127.0.0.1:6379,publish uwsgi",
    # Lines tell of the machine, of processes and of the day.
    replaced=((rb"(?s)\*3\r\n\$7\r\npublish\r\n.*", b"(lines)"), (rb"(?s)^:0\r\n.*", b"(answers)")),
    polls=True,
)
def uwsgi_log(stage):
    plugins = "--plugin redislog --plugin notfound"
    words = f"/usr/bin/uwsgi-core {plugins} --http-socket 127.0.0.1:@http@".split()
    stage.start([*words, "--logger", "redislog:127.0.0.1:@redis@,publish uwsgi"], stage.http)
    return stage.get(stage.http, "/none")[:3]
